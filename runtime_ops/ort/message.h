// Error messages, built on the stack without libc.
#ifndef EDGE_EMBED_ORT_MESSAGE_H_
#define EDGE_EMBED_ORT_MESSAGE_H_

#include <stddef.h>
#include <stdint.h>

namespace edge_embed::ort {

// A short text. Append truncates a text that does not fit.
class Message {
 public:
  Message& operator<<(const char* text);
  Message& operator<<(int64_t number);

  const char* text() const { return text_; }

 private:
  void Append(char character);

  size_t size_ = 0;
  char text_[768] = {};  // always ends in a zero: Append never writes the last element
};

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_MESSAGE_H_
