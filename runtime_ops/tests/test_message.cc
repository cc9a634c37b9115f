// Numbers are formatted without libc, and a text that is too long is cut.
#include "ort/message.h"

#include <limits>

#include "tests/check.h"

namespace edge_embed::testing {
namespace {

void TestNumbers() {
  for (const int64_t number : {int64_t{0}, int64_t{7}, int64_t{-1}, int64_t{10}, int64_t{-1234567890123},
                               std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    ort::Message message;
    message << "id " << number << ".";
    CHECK(message.text() == "id " + std::to_string(number) + ".");
  }
}

void TestLongTextIsCut() {
  ort::Message message;
  for (int i = 0; i < 1000; ++i) message << "0123456789" << int64_t{12345};
  const std::string text = message.text();
  CHECK(text.size() > 500 && text.size() < 1000);
  CHECK(text.compare(0, 20, "01234567891234501234") == 0);
}

}  // namespace
}  // namespace edge_embed::testing

int main() {
  using namespace edge_embed::testing;
  TestNumbers();
  TestLongTextIsCut();
  return 0;
}
