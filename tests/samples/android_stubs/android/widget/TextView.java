package android.widget;

import android.text.TextWatcher;
import android.view.View;

public class TextView extends View {
  private String text = "";
  private TextWatcher watcher;

  public CharSequence getText() {
    return text;
  }

  public final void setText(CharSequence text) {
    this.text = text.toString();
    if (watcher != null) watcher.afterTextChanged(null);
  }

  public final void append(CharSequence more) {
    setText(text + more);
  }

  public int length() {
    return text.length();
  }

  public boolean isAllCaps() {
    return true;
  }

  public void setAllCaps(boolean allCaps) {}

  public void addTextChangedListener(TextWatcher watcher) {
    this.watcher = watcher;
  }
}
