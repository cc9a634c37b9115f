#include "ort/message.h"

namespace edge_embed::ort {

void Message::Append(char character) {
  if (size_ + 1 < sizeof(text_)) text_[size_++] = character;
}

Message& Message::operator<<(const char* text) {
  while (*text != '\0') Append(*text++);
  return *this;
}

Message& Message::operator<<(int64_t number) {
  // Digits are computed from the last to the first. The magnitude is unsigned because -INT64_MIN is not an
  // int64_t.
  char digits[20];
  size_t count = 0;
  uint64_t magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  do {
    digits[count++] = static_cast<char>('0' + magnitude % 10);
    magnitude /= 10;
  } while (magnitude != 0);
  if (number < 0) Append('-');
  while (count > 0) Append(digits[--count]);
  return *this;
}

}  // namespace edge_embed::ort
