#include "tflite/table.h"

#include <stdio.h>

#include "kernels/methods.h"

namespace edge_embed::tflite {
namespace {

struct MethodReader {
  const char* name;
  ee_method method;
  void (*read)(Fields* fields, Memory* memory, Table* table);
};

#define EDGE_EMBED_READER(name, NAME) \
  {#name, EE_##NAME,                  \
   [](Fields* fields, Memory* memory, Table* table) { ReadMethod(fields, memory, &table->c.name, table); }},
constexpr MethodReader kReaders[] = {EDGE_EMBED_METHODS(EDGE_EMBED_READER)};
#undef EDGE_EMBED_READER
constexpr size_t kNumReaders = sizeof(kReaders) / sizeof(kReaders[0]);

// "dpq, ant or tt"
void FailMethod(Fields* fields) {
  char expected[128];
  size_t end = 0;
  for (size_t i = 0; i < kNumReaders && end < sizeof(expected); ++i) {
    const char* between = i == 0 ? "" : i + 1 == kNumReaders ? " or " : ", ";
    end += static_cast<size_t>(
        snprintf(expected + end, sizeof(expected) - end, "%s%s", between, kReaders[i].name));
  }
  fields->Fail("method", "an unknown method", expected);
}

}  // namespace

bool Product(const int64_t* factors, size_t count, int64_t* product) {
  *product = 1;
  for (size_t i = 0; i < count; ++i) {
    if (__builtin_mul_overflow(*product, factors[i], product)) return false;
  }
  return true;
}

bool ReadTable(Fields* fields, Text method, Memory* memory, Table* table) {
  table->num_embeddings = fields->Integer("num_embeddings");
  for (const MethodReader& reader : kReaders) {
    if (!method.Is(reader.name)) continue;
    table->c.version = EE_TABLE_VERSION;
    table->c.method = reader.method;
    reader.read(fields, memory, table);
    return fields->ok();
  }
  FailMethod(fields);
  return false;
}

}  // namespace edge_embed::tflite
