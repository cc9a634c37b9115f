import Foundation

/// Reads a JSON file of a bundle. Numbers that JSON lacks are strings there.
func readJSON<Content: Decodable>(_ type: Content.Type, from name: String, in folder: URL) throws -> Content {
  let bytes: Data
  do {
    bytes = try Data(contentsOf: folder.appendingPathComponent(name))
  } catch {
    throw BundleError.unreadable(file: name, reason: error.localizedDescription)
  }
  let decoder = JSONDecoder()
  decoder.nonConformingFloatDecodingStrategy = .convertFromString(
    positiveInfinity: "Infinity", negativeInfinity: "-Infinity", nan: "NaN")
  do {
    return try decoder.decode(type, from: bytes)
  } catch let error as BundleError {
    throw error
  } catch {
    throw BundleError.damaged(file: name, reason: error.localizedDescription)
  }
}
