import Foundation
import OnnxRuntimeBindings

/// A next word, with its probability.
public struct Suggestion: Identifiable, Sendable {
  public let word: String
  public let probability: Float

  public var id: String { word }
}

/// Suggests the next word of a text with the bundle of samples/next_word.
public actor NextWord {
  /// Which operators run, for people.
  public nonisolated let operators: String

  private let session: ORTSession
  private let vocabulary: Vocabulary

  /// Opens the bundle in the resources of this package, and checks it at the first start.
  public static func open() async throws -> NextWord {
    try NextWord(ModelBundle.open(Bundle.module.bundleURL.appendingPathComponent("bundle")))
  }

  init(_ bundle: ModelBundle) throws {
    let token = bundle.manifest.metadata["tokenizer"] ?? "none"
    guard token == Vocabulary.pythonToken else { throw BundleError.tokenizer(token) }
    operators = bundle.operators
    session = bundle.session
    vocabulary = try Vocabulary(words: readJSON([String].self, from: "vocabulary.json", in: bundle.folder))
  }

  /// The likeliest next words, likeliest first.
  public func suggest(_ text: String, count: Int = 3) throws -> [Suggestion] {
    let ids = vocabulary.encode(text)
    let input = try ORTValue(
      tensorData: packed(ids), elementType: .int64, shape: [1, NSNumber(value: ids.count)])
    let results = try session.run(withInputs: ["ids": input], outputNames: ["output"], runOptions: nil)
    guard let output = results["output"], let answers = try output.tensorTypeAndShapeInfo().shape.last else {
      throw BundleError.output(name: "output", difference: "got none")
    }
    guard answers.intValue <= vocabulary.words.count else {
      throw BundleError.words(got: vocabulary.words.count, expected: answers.intValue)
    }
    // output: [1, ids, answers]
    let logits = try output.withBytes { Array($0.bindMemory(to: Float.self).suffix(answers.intValue)) }
    return best(logits, count)
  }

  private func best(_ logits: [Float], _ count: Int) -> [Suggestion] {
    let largest = logits.max() ?? 0
    let chances = logits.map { exp($0 - largest) }
    let sum = chances.reduce(0, +)
    let ranked = zip(vocabulary.words, chances).sorted { $0.1 > $1.1 }
    let words = ranked.lazy.filter { Vocabulary.isWord($0.0) }.prefix(count)
    return words.map { Suggestion(word: $0.0, probability: $0.1 / sum) }
  }
}
