// The manifest names the tensors of a model that are the inputs, the outputs and the table of a use. It is
// text, in the metadata "edge_embed.delegate" of the file. Tools that renumber tensors or add operators
// therefore do not break it:
//
//   edge_embed 1
//   rows dpq ids=ids rows=words codes=words.codes values=words.values num_embeddings=1000 bits=4 ...
//
// The first line states the version of the format. Each further line is a use, a method and fields, each
// separated by one space. A value is the name of a tensor, an integer, or integers separated by commas.
// docs/deployment/tflite-delegate.md lists the fields. Unknown fields are ignored.
#ifndef EDGE_EMBED_TFLITE_MANIFEST_H_
#define EDGE_EMBED_TFLITE_MANIFEST_H_

#include <stddef.h>
#include <stdint.h>

namespace edge_embed::tflite {

constexpr const char* kMetadataName = "edge_embed.delegate";

// A piece of text in the file.
struct Text {
  const char* data;
  size_t size;

  bool Is(const char* other) const;
};

// Removes the first line; false if its version is unknown.
bool TakeHeader(Text* manifest);

// Removes the next line that is not empty; false at the end.
bool TakeLine(Text* manifest, Text* line);

// Removes the next word; false at the end.
bool TakeWord(Text* line, Text* word);

// The value of a field; false if the line has no such field.
bool FindField(Text line, const char* key, Text* value);

// Integers separated by commas; false for other text, for a number that is no int64, and for more than `most`
// numbers.
bool ReadIntegers(Text value, size_t most, int64_t* integers, size_t* count);

}  // namespace edge_embed::tflite

#endif  // EDGE_EMBED_TFLITE_MANIFEST_H_
