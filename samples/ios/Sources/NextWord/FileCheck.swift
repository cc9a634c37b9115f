import CryptoKit
import Foundation

extension Manifest.File {
  /// Size and SHA-256 of a file of a bundle.
  init(of name: String, in folder: URL) throws {
    let found: (count: Int, digest: SHA256.Digest)
    do {
      found = try digest(of: folder.appendingPathComponent(name))
    } catch {
      throw BundleError.unreadable(file: name, reason: error.localizedDescription)
    }
    let digits = found.digest.map { String(format: "%02x", $0) }
    self.init(bytes: found.count, sha256: digits.joined())
  }

  /// Compares a file of a bundle with the size and hash of its manifest.
  func compare(_ name: String, in folder: URL) throws {
    let found = try Manifest.File(of: name, in: folder)
    guard found.bytes == bytes else {
      throw BundleError.size(file: name, got: found.bytes, expected: bytes)
    }
    guard found.sha256 == sha256 else {
      throw BundleError.hash(file: name, got: found.sha256, expected: sha256)
    }
  }
}

/// Reads a file part by part: models can be larger than the memory of an app.
private func digest(of url: URL) throws -> (count: Int, digest: SHA256.Digest) {
  let file = try FileHandle(forReadingFrom: url)
  defer { try? file.close() }
  var hash = SHA256()
  var count = 0
  var isComplete = false
  while !isComplete {
    try autoreleasepool {
      let part = try file.read(upToCount: 1 << 20) ?? Data()
      hash.update(data: part)
      count += part.count
      isComplete = part.isEmpty
    }
  }
  return (count, hash.finalize())
}
