import OnnxRuntimeBindings

#if canImport(EdgeEmbedOps)
  import EdgeEmbedOps
#endif

/// The kernels of edge-embed. Without them, ONNX Runtime runs the portable bodies of the model, with equal results.
enum OperatorLibrary {
  /// Version of the library, or nil if the app has none.
  static var version: String? {
    #if canImport(EdgeEmbedOps)
      return String(cString: ee_version())
    #else
      return nil
    #endif
  }

  /// Registers the library, unless it is older than the model requires. Returns what runs, for people.
  static func register(in options: ORTSessionOptions, needed: String?) throws -> String {
    guard let version = version else { return "The portable bodies run." }
    if let needed = needed, isOlder(version, than: needed) {
      return "got edge_embed_ops \(version), expected \(needed) or newer: update it. The portable bodies run instead."
    }
    #if canImport(EdgeEmbedOps)
      try options.registerCustomOps(functionPointer: RegisterEdgeEmbedOps)
    #endif
    return "edge_embed_ops \(version) runs."
  }
}
