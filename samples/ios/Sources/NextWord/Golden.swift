import Foundation
import OnnxRuntimeBindings

/// Inputs of a model, and the outputs of the trained model for them.
struct Golden: Decodable {
  let inputs: [GoldenTensor]
  let outputs: [GoldenTensor]

  /// Runs the inputs, and compares the outputs.
  func compare(in session: ORTSession) throws {
    guard outputs.contains(where: { !$0.values.isEmpty }) else { throw BundleError.noGoldenValues }
    var feeds: [String: ORTValue] = [:]
    for input in inputs {
      do {
        feeds[input.name] = try input.tensor()
      } catch {  // values that are not of its type or shape
        let reason = "input \(input.name): \(error.localizedDescription)"
        throw BundleError.damaged(file: "golden.json", reason: reason)
      }
    }
    let names = try Set(session.outputNames())
    let results = try session.run(withInputs: feeds, outputNames: names, runOptions: nil)
    for output in outputs {
      if let difference = try output.difference(from: results[output.name]) {
        throw BundleError.output(name: output.name, difference: difference)
      }
    }
  }
}

struct GoldenTensor: Decodable {
  let name: String
  let type: ElementType
  let shape: [Int]
  let values: [Double]
  let positions: [Int]?
  let atol: Double
  let rtol: Double

  private enum CodingKeys: String, CodingKey {
    case name, dtype, shape, values, positions, atol, rtol
  }

  init(from decoder: Decoder) throws {
    let content = try decoder.container(keyedBy: CodingKeys.self)
    name = try content.decode(String.self, forKey: .name)
    let dtype = try content.decode(String.self, forKey: .dtype)
    guard let type = ElementType.all.first(where: { $0.name == dtype }) else {
      throw BundleError.dtype(tensor: name, got: dtype)
    }
    self.type = type
    shape = try content.decode([Int].self, forKey: .shape)
    values = try content.decode([Double].self, forKey: .values)
    positions = try content.decodeIfPresent([Int].self, forKey: .positions)
    atol = try Self.tolerance(.atol, in: content)
    rtol = try Self.tolerance(.rtol, in: content)
  }

  private static func tolerance(
    _ key: CodingKeys, in content: KeyedDecodingContainer<CodingKeys>
  ) throws -> Double {
    guard content.contains(key) else { return 0 }
    let number = try content.decode(Double.self, forKey: key)
    guard number >= 0, number < 1e30 else {
      throw DecodingError.dataCorruptedError(
        forKey: key, in: content, debugDescription: "got \(number), expected 0 <= number < 1e30")
    }
    return number
  }

  func tensor() throws -> ORTValue {
    try ORTValue(
      tensorData: type.pack(values), elementType: type.code, shape: shape.map { NSNumber(value: $0) })
  }

  /// How an output differs from this one, or nil if it agrees.
  func difference(from output: ORTValue?) throws -> String? {
    guard let output = output else { return "got none" }
    let found = try output.tensorTypeAndShapeInfo()
    let sizes = found.shape.map { $0.intValue }
    guard found.elementType == type.code, sizes == shape else {
      let got = ElementType.all.first { $0.code == found.elementType }?.name ?? "another type"
      return "got \(got) \(sizes), expected \(type.name) \(shape)"
    }
    let numbers = try output.withBytes(type.unpack)
    let places = positions ?? Array(numbers.indices)
    guard values.count == places.count else {
      return "got \(values.count) golden values, expected \(places.count)"
    }
    for (position, expected) in zip(places, values) {
      guard numbers.indices.contains(position) else {
        return "got \(numbers.count) values, expected one at position \(position)"
      }
      let got = numbers[position]
      if !agrees(got, expected) {
        return "got \(got) at position \(position), expected \(expected) (atol \(atol), rtol \(rtol))"
      }
    }
    return nil
  }

  /// |y - g| <= atol + rtol |g| for floats; other values are equal, as they have no tolerances.
  private func agrees(_ got: Double, _ golden: Double) -> Bool {
    if got == golden || (got.isNaN && golden.isNaN) { return true }
    return golden.isFinite && abs(got - golden) <= atol + rtol * abs(golden)
  }
}
