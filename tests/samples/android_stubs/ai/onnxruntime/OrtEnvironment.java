package ai.onnxruntime;

public final class OrtEnvironment implements AutoCloseable {
  private static final OrtEnvironment INSTANCE = new OrtEnvironment();

  private OrtEnvironment() {}

  public static OrtEnvironment getEnvironment() {
    return INSTANCE;
  }

  public String getVersion() {
    return System.getProperty("onnxruntime.version");
  }

  public OrtSession createSession(String modelPath, OrtSession.SessionOptions options) throws OrtException {
    return new OrtSession(modelPath, options);
  }

  @Override
  public void close() {}
}
