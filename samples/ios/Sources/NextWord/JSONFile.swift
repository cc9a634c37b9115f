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
  } catch let error as DecodingError {
    throw BundleError.damaged(file: name, reason: error.placeAndReason)
  }
}

extension DecodingError {
  /// Where a value is that has another type than expected, and why: its localizedDescription tells neither.
  fileprivate var placeAndReason: String {
    switch self {
    case let .typeMismatch(_, context), let .valueNotFound(_, context), let .keyNotFound(_, context),
      let .dataCorrupted(context):
      let place = context.codingPath.map { $0.stringValue }
      let reason = context.debugDescription.trimmingCharacters(in: CharacterSet(charactersIn: "."))
      return (place + [reason]).joined(separator: ": ")
    @unknown default:
      return localizedDescription
    }
  }
}
