// A plugin of QEMU (user mode, plugin API 1): at every call of close(kMark), prints how many instructions
// have been executed so far. QEMU's header is not packaged, so what is used of it is declared here.
#include <cinttypes>
#include <cstdio>

#include "tests/count_mark.h"

extern "C" {

struct qemu_plugin_tb;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

using TranslatedCallback = void (*)(uint64_t plugin, qemu_plugin_tb* block);
using SyscallCallback = void (*)(uint64_t plugin, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2,
                                 uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                                 uint64_t a8);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t plugin, TranslatedCallback callback);
void qemu_plugin_register_vcpu_syscall_cb(uint64_t plugin, SyscallCallback callback);
size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb* block);
void qemu_plugin_register_vcpu_tb_exec_inline(qemu_plugin_tb* block, qemu_plugin_op op, void* to,
                                              uint64_t number);

// What QEMU looks up in a plugin.
__attribute__((visibility("default"))) extern const int qemu_plugin_version = 1;
__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t plugin, const void* info, int argc,
                                                               char** argv);

}  // extern "C"

namespace {

uint64_t executed = 0;

void CountBlock(uint64_t, qemu_plugin_tb* block) {
  qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &executed,
                                           qemu_plugin_tb_n_insns(block));
}

void PrintAtMark(uint64_t, unsigned, int64_t, uint64_t file, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                 uint64_t, uint64_t) {
  if (static_cast<int>(file) == edge_embed::testing::kMark) std::fprintf(stderr, "%" PRIu64 "\n", executed);
}

}  // namespace

int qemu_plugin_install(uint64_t plugin, const void*, int, char**) {
  qemu_plugin_register_vcpu_tb_trans_cb(plugin, CountBlock);
  qemu_plugin_register_vcpu_syscall_cb(plugin, PrintAtMark);
  return 0;
}
