// Suggests next words with the model of a bundle: complete BUNDLE TEXT...

#include <clocale>
#include <cmath>
#include <exception>
#include <iomanip>
#include <iostream>
#include <stdexcept>

#include "bundle.h"
#include "next_word.h"

int main(int count, char** arguments) {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // which characters are letters
  try {
    if (count < 3) throw std::runtime_error("got no texts, expected: complete BUNDLE TEXT...");
    const Ort::Env env;
    Bundle bundle = open_bundle(env, arguments[1]);
    std::cerr << bundle.operators << '\n';
    NextWord model(std::move(bundle));
    for (int i = 2; i < count; ++i) {
      std::cout << "  " << std::left << std::setw(28) << arguments[i] << " ->";
      const char* separator = " ";
      for (const auto& [word, probability] : model.suggest(arguments[i])) {
        std::cout << separator << word << " (" << std::lround(100 * probability) << "%)";
        separator = ", ";
      }
      std::cout << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << "Error: " << error.what() << '\n';
    return 1;
  }
}
