import Foundation

extension ModelBundle {
  private static let key = "checked bundle"

  /// Opens a bundle, and checks it unless an earlier start did so with the same ONNX Runtime and operator library: an
  /// update of the app can bring others.
  static func open(_ folder: URL, defaults: UserDefaults = .standard) throws -> ModelBundle {
    let manifest = try Manifest.File(of: "bundle.json", in: folder)
    let identity = [manifest.sha256, runtimeVersion, OperatorLibrary.version ?? "none"].joined(separator: " ")
    let isKnown = defaults.string(forKey: key) == identity
    let bundle = try ModelBundle(folder: folder, check: !isKnown)
    defaults.set(identity, forKey: key)
    return bundle
  }
}
