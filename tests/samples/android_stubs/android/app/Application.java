package android.app;

import android.content.Context;

public class Application extends Context {
  public void onCreate() {}
}
