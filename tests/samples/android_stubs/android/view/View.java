package android.view;

public class View {
  private OnClickListener listener;

  public interface OnClickListener {
    void onClick(View view);
  }

  public void setOnClickListener(OnClickListener listener) {
    this.listener = listener;
  }

  public boolean performClick() {
    listener.onClick(this);
    return true;
  }
}
