package android.view;

import java.util.ArrayList;
import java.util.List;

public abstract class ViewGroup extends View {
  private final List<View> children = new ArrayList<>();

  public static class LayoutParams {
    public static final int WRAP_CONTENT = -2;
  }

  public void addView(View view, LayoutParams parameters) {
    children.add(view);
  }

  public void removeAllViews() {
    children.clear();
  }

  public int getChildCount() {
    return children.size();
  }

  public View getChildAt(int index) {
    return children.get(index);
  }
}
