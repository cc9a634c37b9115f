package edgeembed.ops;

import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;

/** The operator library of edge-embed in an app. */
public final class EdgeEmbedOps {
  /** The version of the library, for an app that compares it with the one that a bundle requires. */
  public static final String VERSION = "@VERSION@";

  private static final String LIBRARY = "edge_embed_ops";

  private EdgeEmbedOps() {}

  /**
   * Loads the library, and adds its operators to session options. Call it before the session is created.
   *
   * @param options options of a session.
   * @throws OrtException if ONNX Runtime refuses the library.
   */
  public static void register(OrtSession.SessionOptions options) throws OrtException {
    System.loadLibrary(LIBRARY);
    options.registerCustomOpLibrary(System.mapLibraryName(LIBRARY));
  }
}
