// Suggests next words with the model of a bundle: complete BUNDLE TEXT...

#include <clocale>
#include <cmath>
#include <exception>
#include <iomanip>
#include <iostream>
#include <stdexcept>
#include <string>

#include "bundle.h"
#include "next_word.h"

namespace {

// A text of a file may contain characters that a terminal obeys, such as ESC; they become question marks.
std::string printable(std::string text) {
  unsigned char before = 0;
  for (char& letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < ' ' || byte == 0x7F) letter = '?';
    if (before == 0xC2 && byte < 0xA0) letter = '\xBF';  // U+0080 to U+009F; C2 BF is an inverted one
    before = byte;
  }
  return text;
}

}  // namespace

int main(int count, char** arguments) {
  // Which characters are letters. Systems that lack this locale use that of the user.
  if (!std::setlocale(LC_CTYPE, "C.UTF-8")) std::setlocale(LC_CTYPE, "");
  try {
    if (count < 3) throw std::runtime_error("got no texts, expected: complete BUNDLE TEXT...");
    const Ort::Env env(ORT_LOGGING_LEVEL_FATAL);  // errors are exceptions
    Bundle bundle = open_bundle(env, arguments[1]);
    std::cerr << printable(bundle.operators) << '\n';
    NextWord model(std::move(bundle));
    for (int i = 2; i < count; ++i) {
      std::cout << "  " << std::left << std::setw(28) << arguments[i] << " ->";
      const char* separator = " ";
      for (const auto& [word, probability] : model.suggest(arguments[i])) {
        std::cout << separator << printable(word) << " (" << std::lround(100 * probability) << "%)";
        separator = ", ";
      }
      std::cout << '\n';
    }
    if (!std::cout.flush()) {
      throw std::runtime_error(
          "standard output: got a failed write, expected room for the suggestions: free space, or print to "
          "another place");
    }
  } catch (const std::exception& error) {
    std::cerr << "Error: " << printable(error.what()) << '\n';
    return 1;
  }
}
