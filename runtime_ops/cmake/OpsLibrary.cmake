# How the library is compiled and linked. Everything that is target-specific in the build is here.
include(CheckCXXCompilerFlag)

set(EDGE_EMBED_KERNEL_SOURCES kernels/element.cc kernels/status.cc kernels/use.cc kernels/vector.cc)
set(EDGE_EMBED_C_API_SOURCES c_api/edge_embed.cc)
set(EDGE_EMBED_ORT_SOURCES ort/bag.cc ort/logits.cc ort/message.cc ort/node.cc ort/register.cc ort/result.cc)
foreach(method IN ITEMS ant dpq tt)
  list(APPEND EDGE_EMBED_KERNEL_SOURCES kernels/${method}/reference.cc kernels/${method}/validate.cc)
  list(APPEND EDGE_EMBED_ORT_SOURCES ort/${method}.cc)
endforeach()
foreach(list IN ITEMS KERNEL C_API ORT)
  list(TRANSFORM EDGE_EMBED_${list}_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
endforeach()
set(EDGE_EMBED_FREESTANDING_SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/freestanding/memory.cc")

# Warnings and sanitizers: for the library and the tests alike.
function(edge_embed_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
                                           -Wcast-qual -Wundef)
  target_compile_definitions(${target} PRIVATE EDGE_EMBED_VERSION="${EDGE_EMBED_VERSION}")
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/..")
  if(EDGE_EMBED_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer -g)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endif()
endfunction()

function(edge_embed_freestanding_options target)
  target_sources(${target} PRIVATE "${EDGE_EMBED_FREESTANDING_SOURCE}")
  target_compile_options(${target} PRIVATE -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables
                                           -fno-unwind-tables)
  # Else the compiler turns the loop inside memset into a call of memset.
  check_cxx_compiler_flag(-fno-tree-loop-distribute-patterns EDGE_EMBED_HAS_NO_LOOP_PATTERNS)
  if(EDGE_EMBED_HAS_NO_LOOP_PATTERNS)
    set_source_files_properties("${EDGE_EMBED_FREESTANDING_SOURCE}" PROPERTIES COMPILE_OPTIONS
                                "-fno-tree-loop-distribute-patterns")
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    # Atomics inline instead of calls into libgcc; x18 belongs to the system on Android and Apple.
    target_compile_options(${target} PRIVATE -mno-outline-atomics -ffixed-x18)
  endif()
  target_link_options(${target} PRIVATE -nostdlib LINKER:-z,max-page-size=16384)  # Android's page size
endfunction()

# One shared library of all kernels and adapters.
function(edge_embed_add_ops_library target freestanding)
  add_library(${target} SHARED ${EDGE_EMBED_KERNEL_SOURCES} ${EDGE_EMBED_C_API_SOURCES}
                               ${EDGE_EMBED_ORT_SOURCES})
  edge_embed_compile_options(${target})
  # SYSTEM: the header of another project is not ours to keep free of warnings.
  target_include_directories(${target} SYSTEM PRIVATE "${ONNXRUNTIME_INCLUDE_DIR}")
  target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti -fno-threadsafe-statics
                                           -ffunction-sections -fdata-sections)
  if(freestanding)
    edge_embed_freestanding_options(${target})
  endif()
  if(UNIX AND NOT APPLE)
    target_link_options(${target} PRIVATE LINKER:--gc-sections LINKER:--as-needed
                                          $<$<CONFIG:Release>:LINKER:-s>)
    if(NOT EDGE_EMBED_SANITIZE)
      target_link_options(${target} PRIVATE LINKER:--no-undefined)  # sanitizers: from the program's runtime
    endif()
  endif()
endfunction()
