// The manifest: which tensors of a model are the inputs, the outputs and the table of a use. It is text, in
// the metadata "edge_embed.delegate" of the file, so that tools which renumber tensors or add operators do
// not break it:
//
//   edge_embed 1
//   rows dpq ids=ids rows=words codes=words.codes values=words.values num_embeddings=1000 bits=4 ...
//
// The first line has the version of the format. Each line after it is a use, a method and fields, one space
// before each; a value is the name of a tensor, an integer, or integers with commas between them. README.md
// lists the fields. Those that are not known here are skipped.
#ifndef EDGE_EMBED_TFLITE_MANIFEST_H_
#define EDGE_EMBED_TFLITE_MANIFEST_H_

#include <stddef.h>
#include <stdint.h>

namespace edge_embed::tflite {

constexpr const char* kMetadataName = "edge_embed.delegate";

// A piece of text that lies in the file.
struct Text {
  const char* data;
  size_t size;

  bool Is(const char* other) const;
};

// Takes the first line off; false where its version is another one.
bool TakeHeader(Text* manifest);

// Takes the next line that is not empty off; false at the end.
bool TakeLine(Text* manifest, Text* line);

// Takes the next word off; false at the end.
bool TakeWord(Text* line, Text* word);

// The value of a field; false where there is none.
bool FindField(Text line, const char* key, Text* value);

// Integers with commas between them; false for anything else, for one that is no int64, and for more than
// `most`.
bool ReadIntegers(Text value, size_t most, int64_t* integers, size_t* count);

}  // namespace edge_embed::tflite

#endif  // EDGE_EMBED_TFLITE_MANIFEST_H_
