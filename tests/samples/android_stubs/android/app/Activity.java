package android.app;

import android.content.Context;
import android.os.Bundle;
import android.view.View;
import java.util.Map;

public class Activity extends Context {
  private Application application;
  private Map<Integer, View> views;

  /** Starts it, for the tests. */
  public final void start(Application application, Map<Integer, View> views) {
    this.application = application;
    this.views = views;
    onCreate(null);
  }

  public final void destroy() {
    onDestroy();
  }

  protected void onCreate(Bundle savedInstanceState) {}

  protected void onDestroy() {}

  public void setContentView(int layout) {}

  @SuppressWarnings("unchecked")
  public <T extends View> T findViewById(int id) {
    return (T) views.get(id);
  }

  public final Application getApplication() {
    return application;
  }

  public final void runOnUiThread(Runnable action) {
    action.run();
  }
}
