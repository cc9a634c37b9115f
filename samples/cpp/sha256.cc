#include "sha256.h"

#include <array>
#include <fstream>
#include <stdexcept>
#include <vector>

#ifdef _WIN32
#include <windows.h>
// after windows.h, whose types it uses
#include <bcrypt.h>
#else
#include <openssl/evp.h>

#include <memory>
#endif

namespace {

using Digest = std::array<unsigned char, 32>;

#ifdef _WIN32
class Hash {
 public:
  Hash() { require(BCryptCreateHash(BCRYPT_SHA256_ALG_HANDLE, &hash_, nullptr, 0, nullptr, 0, 0)); }
  ~Hash() { BCryptDestroyHash(hash_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;

  void add(char* data, size_t bytes) {
    require(BCryptHashData(hash_, reinterpret_cast<PUCHAR>(data), static_cast<ULONG>(bytes), 0));
  }
  Digest finish() {
    Digest digest;
    require(BCryptFinishHash(hash_, digest.data(), static_cast<ULONG>(digest.size()), 0));
    return digest;
  }

 private:
  static void require(NTSTATUS status) {
    if (!BCRYPT_SUCCESS(status)) throw std::runtime_error("SHA-256 is not available");
  }
  BCRYPT_HASH_HANDLE hash_ = nullptr;
};
#else
class Hash {
 public:
  Hash() { require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr)); }

  void add(const char* data, size_t bytes) { require(EVP_DigestUpdate(context_.get(), data, bytes)); }
  Digest finish() {
    Digest digest;
    require(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr));
    return digest;
  }

 private:
  static void require(int is_done) {
    if (!is_done) throw std::runtime_error("SHA-256 is not available");
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};
#endif

}  // namespace

std::string sha256_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(1 << 20);
  Hash hash;
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), file.gcount() > 0) {
    hash.add(buffer.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.eof()) throw std::runtime_error(path.filename().string() + ": cannot be read");
  std::string digits;
  for (unsigned char byte : hash.finish()) {
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}
