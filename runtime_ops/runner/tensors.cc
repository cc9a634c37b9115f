#include "runner/tensors.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace edge_embed::runner {
namespace {

constexpr char kMagic[8] = "EETENS1";

// Reads one value after another from the bytes of a file.
class Reader {
 public:
  Reader(const std::string& path, const std::vector<char>& bytes) : path_(path), bytes_(bytes) {}

  void Take(void* to, uint64_t size) {
    if (size > bytes_.size() - at_) {
      throw std::runtime_error(path_ + ": ends at byte " + std::to_string(bytes_.size()) + ", expected " +
                               std::to_string(size) + " more after byte " + std::to_string(at_));
    }
    if (size != 0) std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
  }

  template <typename Number>
  Number Take() {
    Number number{};
    Take(&number, sizeof number);
    return number;
  }

  // A buffer of `size` bytes, which is allocated only if the file has that many.
  template <typename Buffer>
  Buffer TakeBuffer(uint64_t size) {
    Buffer buffer;
    if (size <= bytes_.size() - at_) buffer.resize(size);
    Take(buffer.data(), size);
    return buffer;
  }

  bool AtEnd() const { return at_ == bytes_.size(); }

 private:
  const std::string& path_;
  const std::vector<char>& bytes_;
  size_t at_ = 0;
};

NamedTensor TakeTensor(Reader& reader) {
  NamedTensor tensor;
  tensor.name = reader.TakeBuffer<std::string>(reader.Take<uint32_t>());
  tensor.type = reader.Take<uint32_t>();
  for (uint32_t rank = reader.Take<uint32_t>(); rank != 0; --rank) {
    tensor.dims.push_back(static_cast<int64_t>(reader.Take<uint64_t>()));
  }
  tensor.data = reader.TakeBuffer<std::vector<uint8_t>>(reader.Take<uint64_t>());
  return tensor;
}

template <typename Number>
void Put(std::ofstream& file, Number number) {
  file.write(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

std::vector<NamedTensor> ReadTensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  Reader reader(path, bytes);
  char magic[sizeof kMagic];
  reader.Take(magic, sizeof magic);
  if (std::memcmp(magic, kMagic, sizeof magic) != 0)
    throw std::runtime_error(path + ": is not a file of tensors");
  std::vector<NamedTensor> tensors;
  for (uint32_t count = reader.Take<uint32_t>(); count != 0; --count) tensors.push_back(TakeTensor(reader));
  if (!reader.AtEnd()) throw std::runtime_error(path + ": has more bytes than tensors");
  return tensors;
}

void WriteTensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  std::ofstream file(path, std::ios::binary);
  file.write(kMagic, sizeof kMagic);
  Put(file, static_cast<uint32_t>(tensors.size()));
  for (const NamedTensor& tensor : tensors) {
    Put(file, static_cast<uint32_t>(tensor.name.size()));
    file.write(tensor.name.data(), static_cast<std::streamsize>(tensor.name.size()));
    Put(file, tensor.type);
    Put(file, static_cast<uint32_t>(tensor.dims.size()));
    for (const int64_t dim : tensor.dims) Put(file, static_cast<uint64_t>(dim));
    Put(file, static_cast<uint64_t>(tensor.data.size()));
    file.write(reinterpret_cast<const char*>(tensor.data.data()),
               static_cast<std::streamsize>(tensor.data.size()));
  }
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written; is the disk full?");
}

}  // namespace edge_embed::runner
