import NextWord
import SwiftUI

struct ContentView: View {
  @StateObject private var suggester = Suggester()
  @State private var text = "Return a list of"

  var body: some View {
    VStack(alignment: .leading, spacing: 12) {
      Text("Next word").font(.title)
      Text("A language model in this app suggests the next word. Nothing that you type is sent.")
      TextEditor(text: $text)
        .frame(height: 120)
        .overlay(RoundedRectangle(cornerRadius: 6).stroke(Color.secondary))
        .accessibilityLabel("Text")
        .autocorrectionDisabled()
        .textInputAutocapitalization(.never)
        .keyboardType(.asciiCapable)  // no curly quotes: the model was trained on straight ones
      HStack {
        ForEach(suggester.suggestions) { suggestion in
          Button(label(of: suggestion)) { add(suggestion.word) }
            .buttonStyle(.bordered)
        }
      }
      Text(suggester.state).foregroundColor(suggester.hasFailed ? .red : .secondary)
      Spacer()
    }
    .padding()
    .task(id: text) { await suggester.suggest(text) }
  }

  private func label(of suggestion: Suggestion) -> String {
    "\(suggestion.word) \(suggestion.probability.formatted(.percent.precision(.fractionLength(0))))"
  }

  private func add(_ word: String) {
    let endsWithSpace = text.last?.isWhitespace ?? true
    text += endsWithSpace ? word : " \(word)"
  }
}
