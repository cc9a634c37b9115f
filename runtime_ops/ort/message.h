// Error texts, built on the stack without libc: numbers are formatted here.
#ifndef EDGE_EMBED_ORT_MESSAGE_H_
#define EDGE_EMBED_ORT_MESSAGE_H_

#include <stddef.h>
#include <stdint.h>

namespace edge_embed::ort {

// A short text that is cut, never overrun, when it does not fit.
class Message {
 public:
  Message& operator<<(const char* text);
  Message& operator<<(int64_t number);

  const char* text() const { return text_; }

 private:
  void Append(char character);

  size_t size_ = 0;
  char text_[768] = {};  // always ends in a zero: Append never touches the last one
};

}  // namespace edge_embed::ort

#endif  // EDGE_EMBED_ORT_MESSAGE_H_
