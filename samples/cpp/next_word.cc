#include "next_word.h"

#include <algorithm>
#include <array>
#include <clocale>
#include <cmath>
#include <cwctype>
#include <stdexcept>
#include <utility>

namespace {

constexpr int64_t kPadding = 0, kUnknown = 1;
// A word, or a single sign: the expression that the model was trained with, and that tokens_of follows.
constexpr char kPythonToken[] = R"(\w+(?:[.'-]\w+)*|[^\w\s])";

struct Letter {
  char32_t code;
  std::string_view bytes;  // of the text
};

// Splits UTF-8 into code points. A byte that is no UTF-8 becomes U+FFFD, which is a sign.
std::vector<Letter> letters_of(std::string_view text) {
  std::vector<Letter> letters;
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    size_t length = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    char32_t code = length == 1 ? first : first & (0xFF >> (length + 1));
    for (size_t i = 1; i < length; ++i) {
      const unsigned char next = at + i < text.size() ? text[at + i] : 0;
      if ((next & 0xC0) != 0x80 || first < 0xC0) {
        length = 1;
        code = 0xFFFD;
        break;
      }
      code = code << 6 | (next & 0x3F);
    }
    constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // of each length; less is no UTF-8
    if (code < kLeast[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      length = 1;
      code = 0xFFFD;
    }
    letters.push_back({code, text.substr(at, length)});
    at += length;
  }
  return letters;
}

// Letters outside of the basic plane count as signs where wchar_t has 16 bits.
bool is_in(char32_t code, int (*group)(wint_t)) {
  return code <= WCHAR_MAX && group(static_cast<wint_t>(code));
}
bool is_word(char32_t code) { return code == '_' || is_in(code, std::iswalnum); }
bool is_space(char32_t code) {  // glibc leaves out separators and spaces that do not break a line
  const bool is_left_out =
      (code >= 0x1C && code <= 0x1F) || code == 0x85 || code == 0xA0 || code == 0x2007 || code == 0x202F;
  return is_left_out || is_in(code, std::iswspace);
}
bool is_joint(char32_t code) { return code == '.' || code == '\'' || code == '-'; }

std::vector<std::string> tokens_of(std::string_view text) {
  const auto letters = letters_of(text);
  std::vector<std::string> tokens;
  for (size_t at = 0; at < letters.size();) {
    size_t end = at;
    while (end < letters.size() && is_word(letters[end].code)) {
      ++end;
      if (end + 1 < letters.size() && is_joint(letters[end].code) && is_word(letters[end + 1].code)) ++end;
    }
    if (end == at) end = at + 1;
    if (!is_space(letters[at].code)) {
      tokens.emplace_back(letters[at].bytes.data(),
                          letters[end - 1].bytes.data() + letters[end - 1].bytes.size());
    }
    at = end;
  }
  return tokens;
}

bool is_suggested(const std::string& word) {  // neither a sign nor <unk>
  const auto letters = letters_of(word);
  return !letters.empty() && letters[0].code != '_' && is_word(letters[0].code);
}

}  // namespace

NextWord::NextWord(Bundle bundle) : bundle_(std::move(bundle)), words_(bundle_.vocabulary()) {
  if (!is_word(U'\u00E9')) {
    throw std::runtime_error(std::string("got locale ") + std::setlocale(LC_CTYPE, nullptr) +
                             ", expected one of UTF-8: call std::setlocale, or set the variable LC_ALL");
  }
  const auto found = bundle_.metadata.find("tokenizer");
  const std::string token = found == bundle_.metadata.end() ? "none" : found->second;
  if (token != kPythonToken) {
    throw std::runtime_error("bundle.json: got tokenizer " + token + ", expected " + kPythonToken +
                             ": export the model of samples/next_word");
  }
  for (size_t id = 0; id < words_.size(); ++id) ids_[words_[id]] = static_cast<int64_t>(id);
}

std::vector<int64_t> NextWord::encode(std::string_view text) const {
  std::vector<int64_t> ids{kPadding};
  for (const std::string& word : tokens_of(text)) {
    const auto found = ids_.find(word);
    ids.push_back(found == ids_.end() ? kUnknown : found->second);
  }
  return ids;
}

// output: [1, ids, answers]
size_t NextWord::answers_of(const Ort::Value& output, size_t ids) const {
  const auto info = output.GetTensorTypeAndShapeInfo();
  const auto shape = info.GetShape();
  const bool is_float = info.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  if (!is_float || shape.size() != 3 || shape[0] != 1 || shape[1] != static_cast<int64_t>(ids) ||
      shape[2] < 1) {
    throw std::runtime_error(bundle_.model +
                             ": output: got another type or shape, expected float32 [1, ids, answers]: "
                             "export the model of samples/next_word");
  }
  const auto answers = static_cast<size_t>(shape[2]);
  if (answers > words_.size()) {
    throw std::runtime_error("vocabulary.json: got " + std::to_string(words_.size()) +
                             " words, expected those of " + std::to_string(answers) +
                             " answers: export the bundle again");
  }
  return answers;
}

std::vector<Suggestion> NextWord::suggest(std::string_view text, size_t count) {
  auto ids = encode(text);
  const std::array<int64_t, 2> shape{1, static_cast<int64_t>(ids.size())};
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const auto input =
      Ort::Value::CreateTensor<int64_t>(memory, ids.data(), ids.size(), shape.data(), shape.size());
  const auto output = bundle_.run("ids", input, "output");

  const size_t answers = answers_of(output, ids.size());
  const float* logits = output.GetTensorData<float>() + (ids.size() - 1) * answers;  // of the last word
  const float largest = *std::max_element(logits, logits + answers);
  if (!std::all_of(logits, logits + answers, [](float logit) { return std::isfinite(logit); })) {
    throw std::runtime_error(bundle_.model +
                             ": output: got a score that is no number, expected finite ones: "
                             "export another model");
  }
  double sum = 0;
  std::vector<Suggestion> found;
  for (size_t id = 0; id < answers; ++id) {
    const double chance = std::exp(static_cast<double>(logits[id] - largest));
    sum += chance;
    if (is_suggested(words_[id])) found.push_back({words_[id], chance});
  }
  count = std::min(count, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count), found.end(),
                    [](const Suggestion& a, const Suggestion& b) { return a.probability > b.probability; });
  found.resize(count);
  for (Suggestion& suggestion : found) suggestion.probability /= sum;
  return found;
}
