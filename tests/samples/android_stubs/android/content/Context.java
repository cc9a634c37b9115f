package android.content;

import android.content.res.AssetManager;
import java.io.File;
import java.util.Locale;

public abstract class Context {
  /** Of the device, for the tests. */
  public static File folder;

  public static File assets;

  public File getNoBackupFilesDir() {
    return folder;
  }

  public AssetManager getAssets() {
    return new AssetManager(assets);
  }

  public final String getString(int id, Object... arguments) {
    return String.format(Locale.ROOT, Strings.ALL[id], arguments);
  }
}
