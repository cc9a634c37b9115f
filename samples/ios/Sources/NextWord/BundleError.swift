import Foundation

/// Why a bundle is refused. The texts are for people, and name the file.
public enum BundleError: LocalizedError {
  case unreadable(file: String, reason: String)
  case damaged(file: String, reason: String)
  case formatVersion(Int)
  case target(String)
  case containsTokenizer
  case oldRuntime(got: String, needed: String)
  case size(file: String, got: Int, expected: Int)
  case hash(file: String, got: String, expected: String)
  case dtype(tensor: String, got: String)
  case fileName(String)
  case noHash(file: String)
  case noGoldenValues
  case words(got: Int, expected: Int)
  case output(name: String, difference: String)
  case tokenizer(String)

  public var errorDescription: String? {
    switch self {
    case let .unreadable(file, reason):
      return "\(file): cannot be read: \(reason): copy or download the bundle again"
    case let .damaged(file, reason):
      return "\(file): is damaged: \(reason): copy or download the bundle again"
    case let .formatVersion(version):
      return "bundle.json: got format_version \(version), expected \(Manifest.formatVersion): update this app"
    case let .target(target):
      return "bundle.json: got target \(target), expected onnx: export it again"
    case .containsTokenizer:
      return "bundle.json: its model contains a tokenizer, which onnxruntime cannot run: export without one"
    case let .oldRuntime(got, needed):
      return "got onnxruntime \(got), expected \(needed) or newer: update it"
    case let .size(file, got, expected):
      return "\(file): got \(got) bytes, expected \(expected): copy or download the bundle again"
    case let .hash(file, got, expected):
      return "\(file): got SHA-256 \(got), expected \(expected): copy or download the bundle again"
    case let .dtype(tensor, got):
      let names = ElementType.all.map { $0.name }.joined(separator: ", ")
      return "golden.json: \(tensor): got \(got), expected one of \(names)"
    case let .fileName(name):
      return "bundle.json: got a file named \(name), expected a plain name"
    case let .noHash(file):
      return "bundle.json: got no hash of \(file): copy or download the bundle again"
    case .noGoldenValues:
      return "golden.json: got no values, expected outputs to compare"
    case let .words(got, expected):
      return "vocabulary.json: got \(got) words, expected \(expected): export the bundle again"
    case let .output(name, difference):
      return "output \(name): \(difference): this engine computes something else than the trained model"
    case let .tokenizer(token):
      return "bundle.json: got tokenizer \(token), expected \(Vocabulary.pythonToken): "
        + "export the model of samples/next_word"
    }
  }
}
