import Combine
import Foundation
import NextWord

/// Suggestions for the text on the screen, and what runs or why nothing does.
@MainActor
final class Suggester: ObservableObject {
  @Published private(set) var suggestions: [Suggestion] = []
  @Published private(set) var state = "Loading"
  @Published private(set) var hasFailed = false

  private let model = Task { try await NextWord.open() }

  func suggest(_ text: String) async {
    do {
      let model = try await self.model.value
      let found = try await model.suggest(text)
      guard !Task.isCancelled else { return }  // a later text was typed meanwhile
      suggestions = found
      hasFailed = false
      state = "Golden outputs agree. \(model.operators)"
    } catch {
      suggestions = []
      state = error.localizedDescription
      hasFailed = true
    }
  }
}
