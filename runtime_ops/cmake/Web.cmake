# The kernels and the C interface as one WebAssembly file that imports nothing, for the package edge-embed-web.
add_executable(edge_embed_kernels ${EDGE_EMBED_KERNEL_SOURCES} ${EDGE_EMBED_C_API_SOURCES} ${EDGE_EMBED_FREESTANDING_SOURCE})
set_target_properties(edge_embed_kernels PROPERTIES POSITION_INDEPENDENT_CODE OFF SUFFIX .wasm)
edge_embed_compile_options(edge_embed_kernels)
target_compile_options(edge_embed_kernels PRIVATE -Wno-shorten-64-to-32)  # sizes are 32 bits wide, and codes fit them
# Pages download the file. -Oz, which zig replaces by -Os unless it is for the compiler proper;
# with SIMD, the kernels are -Os, and the thresholds keep larger functions out of line. Equal functions are merged.
set(smallest "$<$<CONFIG:Release>:-Os;-Xclang;-Oz;-Xclang;-fmerge-functions>")
set(level "${smallest}")
if(EDGE_EMBED_ZIG_FLAGS MATCHES simd128)
  set(level "$<$<CONFIG:Release>:-mllvm;-inline-threshold=10;-mllvm;-inlinehint-threshold=22;-Os;-Xclang;-fmerge-functions>")
endif()
target_compile_options(edge_embed_kernels PRIVATE -ffreestanding -ffp-contract=off -fno-exceptions -fno-rtti
                                                  -fno-threadsafe-statics -ffunction-sections -fdata-sections)
get_target_property(sources edge_embed_kernels SOURCES)
set_property(SOURCE ${sources} PROPERTY COMPILE_OPTIONS "${smallest}")
set_property(SOURCE "${PROJECT_SOURCE_DIR}/kernels/isa/portable.cc" PROPERTY COMPILE_OPTIONS "${level}")

# The functions that the package calls, and the end of the data, where memory for tables begins.
set(exports ee_version ee_status_message ee_scratch_bytes ee_gather ee_bag ee_logits ee_topk __heap_base)
list(TRANSFORM exports PREPEND LINKER:--export=)
target_link_options(edge_embed_kernels PRIVATE -nodefaultlibs LINKER:--no-entry LINKER:--gc-sections LINKER:--strip-all
                    LINKER:-z,stack-size=262144 ${exports})
install(TARGETS edge_embed_kernels RUNTIME DESTINATION lib COMPONENT package)
