/// The keys of bundle.json that this package reads.
struct Manifest: Decodable {
  static let formatVersion = 1

  struct File: Decodable {
    let bytes: Int
    let sha256: String
  }

  let target: String
  let model: String
  let requires: [String: String]
  let metadata: [String: String]
  let files: [String: File]

  private enum CodingKeys: String, CodingKey {
    case formatVersion = "format_version"
    case target, model, requires, metadata, files
  }

  init(from decoder: Decoder) throws {
    let content = try decoder.container(keyedBy: CodingKeys.self)
    let version = try content.decode(Int.self, forKey: .formatVersion)
    // First, because another format may lack the other keys.
    guard version == Self.formatVersion else { throw BundleError.formatVersion(version) }
    target = try content.decode(String.self, forKey: .target)
    model = try content.decode(String.self, forKey: .model)
    requires = try content.decode([String: String].self, forKey: .requires)
    metadata = try content.decode([String: String].self, forKey: .metadata)
    files = try content.decode([String: File].self, forKey: .files)
  }

  /// A manifest may come from a server: its names stay in the folder, and nothing without a hash is used.
  func requireFiles() throws {
    for name in files.keys where name.hasPrefix(".") || name.contains(where: { "/\\:".contains($0) }) {
      throw BundleError.fileName(name)
    }
    for name in [model, "golden.json"] where files[name] == nil {
      throw BundleError.noHash(file: name)
    }
  }

  /// Refuses a model that this app cannot run. An old operator library is no reason: it is left out.
  func requireRuntime(_ version: String) throws {
    guard target == "onnx" else { throw BundleError.target(target) }
    guard requires["onnxruntime_extensions"] == nil else { throw BundleError.containsTokenizer }
    if let needed = requires["onnxruntime"], isOlder(version, than: needed) {
      throw BundleError.oldRuntime(got: version, needed: needed)
    }
  }
}

/// Whether a version is older than another, number by number.
func isOlder(_ version: String, than needed: String) -> Bool {
  numbers(of: version).lexicographicallyPrecedes(numbers(of: needed))
}

/// Leading numbers without zeros at the end, so that 1.18 and 1.18.0 are equal.
private func numbers(of version: String) -> [Int] {
  let leading = version.prefix(while: { "0123456789.".contains($0) })
  var numbers = leading.split(separator: ".").map { Int($0) ?? 0 }
  while numbers.last == 0 { numbers.removeLast() }
  return numbers
}
