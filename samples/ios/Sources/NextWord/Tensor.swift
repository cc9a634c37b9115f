import Foundation
import OnnxRuntimeBindings

/// A type of numbers that the Objective-C interface of ONNX Runtime has. Doubles stand for numbers of all types; they
/// are exact for floats, and for integers up to 2^53.
struct ElementType {
  let name: String  // as in numpy
  let code: ORTTensorElementDataType
  let pack: ([Double]) -> NSMutableData
  let unpack: (UnsafeRawBufferPointer) -> [Double]

  static let all: [ElementType] = [
    ElementType(
      name: "float32", code: .float,
      pack: { packed($0.map { Float($0) }) },
      unpack: { $0.bindMemory(to: Float.self).map { Double($0) } }),
    integers("int8", .int8, Int8.self),
    integers("int32", .int32, Int32.self),
    integers("int64", .int64, Int64.self),
    integers("uint8", .uInt8, UInt8.self),
    integers("uint32", .uInt32, UInt32.self),
    integers("uint64", .uInt64, UInt64.self),
  ]

  /// ONNX Runtime refuses the tensor if a number is none of the type, because its memory is too short then.
  private static func integers<Number: FixedWidthInteger>(
    _ name: String, _ code: ORTTensorElementDataType, _ type: Number.Type
  ) -> ElementType {
    ElementType(
      name: name, code: code,
      pack: { packed($0.compactMap { Number(exactly: $0) }) },
      unpack: { $0.bindMemory(to: Number.self).map { Double($0) } })
  }
}

/// Copies numbers into memory that a tensor keeps.
func packed<Number>(_ numbers: [Number]) -> NSMutableData {
  numbers.withUnsafeBytes { NSMutableData(bytes: $0.baseAddress, length: $0.count) }
}

extension ORTValue {
  /// Calls a function with the memory of a tensor, which may be freed together with this value.
  func withBytes<Output>(_ body: (UnsafeRawBufferPointer) throws -> Output) throws -> Output {
    let data = try tensorData()
    return try withExtendedLifetime((self, data)) {
      try body(UnsafeRawBufferPointer(start: data.bytes, count: data.length))
    }
  }
}
