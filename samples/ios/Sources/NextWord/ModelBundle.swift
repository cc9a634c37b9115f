import Foundation
import OnnxRuntimeBindings

/// The version of ONNX Runtime. Some of its releases declare it as optional.
var runtimeVersion: String { (ORTVersion() as String?) ?? "0" }

/// A bundle of `edge-embed export --bundle`, with its model in ONNX Runtime.
struct ModelBundle {
  let folder: URL
  let manifest: Manifest
  let session: ORTSession
  let operators: String

  /// Opens a bundle. Without `check`, hashes and golden outputs are not compared, as after the first start of an app.
  init(folder: URL, check: Bool = true) throws {
    self.folder = folder
    manifest = try readJSON(Manifest.self, from: "bundle.json", in: folder)
    try manifest.requireRuntime(runtimeVersion)
    try manifest.requireFiles()
    if check {
      for (name, file) in manifest.files.sorted(by: { $0.key < $1.key }) {
        try file.compare(name, in: folder)
      }
    }
    let options = try ORTSessionOptions()
    operators = try OperatorLibrary.register(in: options, needed: manifest.requires["edge_embed_ops"])
    let path = folder.appendingPathComponent(manifest.model).path
    session = try ORTSession(env: ORTEnv(loggingLevel: .warning), modelPath: path, sessionOptions: options)
    if check {
      try readJSON(Golden.self, from: "golden.json", in: folder).compare(in: session)
    }
  }
}
