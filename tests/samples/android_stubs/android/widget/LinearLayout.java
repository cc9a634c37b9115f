package android.widget;

public class LinearLayout extends android.view.ViewGroup {
  public static class LayoutParams extends android.view.ViewGroup.LayoutParams {
    public LayoutParams(int width, int height, float weight) {}
  }
}
