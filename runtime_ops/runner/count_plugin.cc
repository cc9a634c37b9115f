// A plugin of QEMU (user mode, plugin API 1). It counts instructions, and the loads and stores among them, in
// the address range that the program names (count_mark.h). At each mark, it writes the three sums as a line
// of the file of the option out=FILE. QEMU's header is not packaged, so the used part is declared here.
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "runner/a64.h"
#include "runner/count_mark.h"

extern "C" {

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t {
  const char* target_name;  // further fields are not used
};
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

using TranslatedCallback = void (*)(uint64_t plugin, qemu_plugin_tb* block);
using SyscallCallback = void (*)(uint64_t plugin, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2,
                                 uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                                 uint64_t a8);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t plugin, TranslatedCallback callback);
void qemu_plugin_register_vcpu_syscall_cb(uint64_t plugin, SyscallCallback callback);
size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb* block);
uint64_t qemu_plugin_tb_vaddr(const qemu_plugin_tb* block);
qemu_plugin_insn* qemu_plugin_tb_get_insn(const qemu_plugin_tb* block, size_t index);
void qemu_plugin_register_vcpu_tb_exec_inline(qemu_plugin_tb* block, qemu_plugin_op op, void* to,
                                              uint64_t number);
const void* qemu_plugin_insn_data(const qemu_plugin_insn* instruction);

// Symbols that QEMU looks up in a plugin.
__attribute__((visibility("default"))) extern const int qemu_plugin_version = 1;
__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t plugin, const qemu_info_t* info,
                                                               int argc, char** argv);

}  // extern "C"

namespace {

using edge_embed::runner::kMark;
using edge_embed::runner::kRange;

uint64_t begin = 0, end = 0;  // the address range
bool arm64 = false;           // on other targets, loads and stores are not counted
uint64_t instructions = 0, loads = 0, stores = 0;
std::FILE* out = nullptr;

void CountBlock(uint64_t, qemu_plugin_tb* block) {
  const uint64_t address = qemu_plugin_tb_vaddr(block);
  if (address < begin || address >= end) return;
  const size_t size = qemu_plugin_tb_n_insns(block);
  uint64_t block_loads = 0, block_stores = 0;
  for (size_t index = 0; arm64 && index < size; ++index) {
    uint32_t instruction = 0;
    std::memcpy(&instruction, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(block, index)),
                sizeof instruction);
    const edge_embed::runner::Access access = edge_embed::runner::AccessOf(instruction);
    block_loads += access.loads;
    block_stores += access.stores;
  }
  qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &instructions, size);
  qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &loads, block_loads);
  qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &stores, block_stores);
}

void Listen(uint64_t, unsigned, int64_t, uint64_t file, uint64_t a2, uint64_t a3, uint64_t, uint64_t,
            uint64_t, uint64_t, uint64_t) {
  if (static_cast<int>(file) == kRange) {
    begin = a2;
    end = a3;
  }
  if (static_cast<int>(file) == kMark) {
    std::fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", instructions, loads, stores);
    std::fflush(out);
  }
}

}  // namespace

int qemu_plugin_install(uint64_t plugin, const qemu_info_t* info, int argc, char** argv) {
  if (argc != 1 || std::strncmp(argv[0], "out=", 4) != 0) {
    std::fputs("count_plugin: expected one option, out=FILE\n", stderr);
    return 1;
  }
  out = std::fopen(argv[0] + 4, "w");
  if (out == nullptr) {
    std::fprintf(stderr, "count_plugin: %s cannot be written\n", argv[0] + 4);
    return 1;
  }
  arm64 = std::strcmp(info->target_name, "aarch64") == 0;
  qemu_plugin_register_vcpu_tb_trans_cb(plugin, CountBlock);
  qemu_plugin_register_vcpu_syscall_cb(plugin, Listen);
  return 0;
}
