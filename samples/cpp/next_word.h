// Suggests the next word of a text with the bundle of samples/next_word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bundle.h"

struct Suggestion {
  std::string word;
  double probability;
};

class NextWord {
 public:
  // Throws std::runtime_error if the bundle has another model.
  explicit NextWord(Bundle bundle);

  // Returns the ids of the words of a text in UTF-8, after the padding that begins every text.
  std::vector<int64_t> encode(std::string_view text) const;

  // Returns the likeliest next words, likeliest first.
  std::vector<Suggestion> suggest(std::string_view text, size_t count = 3);

 private:
  size_t answers_of(const Ort::Value& output, size_t ids) const;

  Bundle bundle_;
  std::vector<std::string> words_;
  std::unordered_map<std::string, int64_t> ids_;
};
