#include "tflite/manifest.h"

namespace edge_embed::tflite {
namespace {

// Removes and returns the text before the next `separator`, or all remaining text.
Text TakeUntil(Text* text, char separator) {
  size_t size = 0;
  while (size < text->size && text->data[size] != separator) ++size;
  const Text taken{text->data, size};
  const size_t used = size < text->size ? size + 1 : size;
  text->data += used;
  text->size -= used;
  return taken;
}

bool TakeFilled(Text* text, char separator, Text* taken) {
  do {
    if (text->size == 0) return false;
    *taken = TakeUntil(text, separator);
  } while (taken->size == 0);
  return true;
}

bool ReadInteger(Text text, int64_t* integer) {
  const bool negative = text.size > 0 && text.data[0] == '-';
  *integer = 0;
  for (size_t i = negative; i < text.size; ++i) {
    const int digit = text.data[i] - '0';
    if (digit < 0 || digit > 9) return false;
    if (__builtin_mul_overflow(*integer, 10, integer)) return false;
    if (__builtin_add_overflow(*integer, negative ? -digit : digit, integer)) return false;
  }
  return text.size > size_t{negative};
}

}  // namespace

bool Text::Is(const char* other) const {
  size_t i = 0;
  while (i < size && other[i] != '\0' && data[i] == other[i]) ++i;
  return i == size && other[i] == '\0';
}

bool TakeHeader(Text* manifest) { return TakeUntil(manifest, '\n').Is("edge_embed 1"); }

bool TakeLine(Text* manifest, Text* line) { return TakeFilled(manifest, '\n', line); }

bool TakeWord(Text* line, Text* word) { return TakeFilled(line, ' ', word); }

bool FindField(Text line, const char* key, Text* value) {
  while (TakeWord(&line, value)) {
    if (TakeUntil(value, '=').Is(key) && value->size > 0) return true;
  }
  return false;
}

bool ReadIntegers(Text value, size_t most, int64_t* integers, size_t* count) {
  *count = 0;
  if (value.size > 0 && value.data[value.size - 1] == ',') return false;
  do {
    if (*count == most || !ReadInteger(TakeUntil(&value, ','), &integers[*count])) return false;
    ++*count;
  } while (value.size > 0);
  return true;
}

}  // namespace edge_embed::tflite
