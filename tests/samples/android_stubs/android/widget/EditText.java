package android.widget;

import android.text.Editable;

public class EditText extends TextView {
  @Override
  public Editable getText() {
    CharSequence text = super.getText();
    return new Editable() {
      @Override
      public int length() {
        return text.length();
      }

      @Override
      public char charAt(int index) {
        return text.charAt(index);
      }

      @Override
      public CharSequence subSequence(int start, int end) {
        return text.subSequence(start, end);
      }

      @Override
      public String toString() {
        return text.toString();
      }
    };
  }

  public void setSelection(int index) {}
}
