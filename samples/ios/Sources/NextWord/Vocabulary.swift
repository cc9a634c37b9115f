import Foundation

/// Words and their ids.
struct Vocabulary {
  static let pythonToken = #"\w+(?:[.'-]\w+)*|[^\w\s]"#

  // A word, or a single sign. The model was trained on words of the Python expression, which has the same meaning.
  private static let letter = #"\p{L}\p{N}_"#
  private static let space = #"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"#
  private static let token = try! NSRegularExpression(
    pattern: #"[\#(letter)]+(?:[.'\-][\#(letter)]+)*|[^\#(letter)\#(space)]"#)
  private static let word = try! NSRegularExpression(pattern: #"^[\p{L}\p{N}]"#)

  private static let padding: Int64 = 0
  private static let unknown: Int64 = 1

  let words: [String]
  // By bytes: Swift takes words as equal that Python tells apart, such as an e with an accent in one or two characters.
  private let ids: [[UInt8]: Int64]

  init(words: [String]) {
    self.words = words
    let pairs = words.enumerated().map { (Array($0.element.utf8), Int64($0.offset)) }
    ids = Dictionary(pairs, uniquingKeysWith: { _, last in last })
  }

  /// Ids of the words of a text, after the padding that begins every text.
  func encode(_ text: String) -> [Int64] {
    let content = text as NSString
    let matches = Self.token.matches(in: text, range: NSRange(location: 0, length: content.length))
    let found = matches.map { Array(content.substring(with: $0.range).utf8) }
    return [Self.padding] + found.map { ids[$0] ?? Self.unknown }
  }

  /// Whether a word can be suggested: it is neither a sign nor `<unk>`.
  static func isWord(_ text: String) -> Bool {
    word.firstMatch(in: text, range: NSRange(location: 0, length: text.utf16.count)) != nil
  }
}
