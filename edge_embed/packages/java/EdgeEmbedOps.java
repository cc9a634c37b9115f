package edgeembed.ops;

import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;

/** The operator library of edge-embed in an app: it is loaded with this class. */
public final class EdgeEmbedOps {
  private static final String LIBRARY = "edge_embed_ops";

  static {
    System.loadLibrary(LIBRARY);
  }

  private EdgeEmbedOps() {}

  /**
   * Adds the operators to session options. Call it before the session is created.
   *
   * @param options options of a session.
   * @throws OrtException if ONNX Runtime refuses the library.
   */
  public static void register(OrtSession.SessionOptions options) throws OrtException {
    options.registerCustomOpLibrary(System.mapLibraryName(LIBRARY));
  }
}
