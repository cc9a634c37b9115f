#include "runner/count.h"

#include <dlfcn.h>

#include "runner/count_mark.h"

#if defined(__linux__)

#include <link.h>

#include <algorithm>

namespace edge_embed::runner {
namespace {

struct Range {
  uint64_t inside, begin,
      end;  // the library that contains the address `inside` has the addresses from begin to end
};

int FindLibrary(dl_phdr_info* library, size_t, void* data) {
  auto& range = *static_cast<Range*>(data);
  uint64_t begin = UINT64_MAX, end = 0;
  for (size_t index = 0; index < library->dlpi_phnum; ++index) {
    const auto& segment = library->dlpi_phdr[index];
    if (segment.p_type != PT_LOAD) continue;
    begin = std::min<uint64_t>(begin, library->dlpi_addr + segment.p_vaddr);
    end = std::max<uint64_t>(end, library->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  if (range.inside < begin || range.inside >= end) return 0;
  range.begin = begin;
  range.end = end;
  return 1;
}

}  // namespace

void CountLibrary(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded, so its address stays the same
  if (library == nullptr) return;
  Range range{reinterpret_cast<uint64_t>(dlsym(library, "RegisterCustomOps")), 0, 0};
  if (dl_iterate_phdr(FindLibrary, &range) != 0) CountRange(range.begin, range.end);
}

}  // namespace edge_embed::runner

#else

namespace edge_embed::runner {

void CountLibrary(const std::string&) {}

}  // namespace edge_embed::runner

#endif
