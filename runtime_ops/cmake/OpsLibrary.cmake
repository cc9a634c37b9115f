# Compile and link options of the library, with all target-specific parts of the build.
include(CheckCXXCompilerFlag)

set(EDGE_EMBED_KERNEL_SOURCES kernels/element.cc kernels/status.cc kernels/topk.cc kernels/use.cc kernels/variant.cc
    kernels/vector.cc)
# Each variant compiles all fast kernels for one instruction set.
set(EDGE_EMBED_VARIANTS portable)
set(EDGE_EMBED_LEVEL_portable -O3)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND EDGE_EMBED_VARIANTS avx2 avx512)
  set(EDGE_EMBED_LEVEL_portable -Os)  # few processors without AVX2 are left
  set(EDGE_EMBED_LEVEL_avx2 -O3)
  set(EDGE_EMBED_LEVEL_avx512 -O3)
  set(EDGE_EMBED_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi2)
  set(EDGE_EMBED_FLAGS_avx512 ${EDGE_EMBED_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
                              -mavx512vbmi -mavx512vnni
                              -mprefer-vector-width=512)
endif()
list(APPEND EDGE_EMBED_KERNEL_SOURCES kernels/isa/cpu.cc)
foreach(variant IN LISTS EDGE_EMBED_VARIANTS)
  list(APPEND EDGE_EMBED_KERNEL_SOURCES kernels/isa/${variant}.cc)
endforeach()
set(EDGE_EMBED_C_API_SOURCES c_api/bag.cc c_api/edge_embed.cc c_api/gather.cc c_api/logits.cc c_api/prepare.cc c_api/tables.cc
    c_api/topk.cc)
set(EDGE_EMBED_ORT_SOURCES ort/bag.cc ort/logits.cc ort/message.cc ort/node.cc ort/op.cc ort/parallel.cc
    ort/register.cc ort/result.cc ort/topk.cc)
set(EDGE_EMBED_TFLITE_SOURCES tflite/bag.cc tflite/delegate.cc tflite/fields.cc tflite/graph.cc tflite/manifest.cc
    tflite/output_layer.cc tflite/rows.cc tflite/table.cc tflite/use.cc)
set(EDGE_EMBED_SMALL_SOURCES kernels/topk.cc)  # which handles blocks of logits, and few candidates one by one
foreach(method IN LISTS EDGE_EMBED_CHOSEN_METHODS)
  file(GLOB sources RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS
       "${CMAKE_CURRENT_SOURCE_DIR}/kernels/${method}/*.cc")
  list(APPEND EDGE_EMBED_KERNEL_SOURCES ${sources})
  list(FILTER sources INCLUDE REGEX "/(reference|validate)[.]cc|tiered/")  # the loops of tiered are in kernels/isa
  list(APPEND EDGE_EMBED_SMALL_SOURCES ${sources})
  list(APPEND EDGE_EMBED_ORT_SOURCES ort/${method}.cc)
  if(NOT method STREQUAL entmax)
    list(APPEND EDGE_EMBED_TFLITE_SOURCES tflite/${method}.cc)
  endif()
endforeach()
if(EDGE_EMBED_ENTMAX)
  foreach(variant IN LISTS EDGE_EMBED_VARIANTS)
    list(APPEND EDGE_EMBED_KERNEL_SOURCES kernels/entmax/isa/${variant}.cc)
  endforeach()
endif()
foreach(list IN ITEMS KERNEL SMALL C_API ORT TFLITE)
  list(TRANSFORM EDGE_EMBED_${list}_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
endforeach()
set(EDGE_EMBED_TRAINING_SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/kernels/isa/cpu.cc"
    "${CMAKE_CURRENT_SOURCE_DIR}/training/training.cc")
foreach(variant IN LISTS EDGE_EMBED_VARIANTS)
  list(APPEND EDGE_EMBED_TRAINING_SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/training/isa/${variant}.cc")
endforeach()
set(EDGE_EMBED_BENCH_SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/kernels/isa/cpu.cc" "${CMAKE_CURRENT_SOURCE_DIR}/bench/bench.cc")
foreach(variant IN LISTS EDGE_EMBED_VARIANTS)
  list(APPEND EDGE_EMBED_BENCH_SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/bench/isa/${variant}.cc")
endforeach()
set(EDGE_EMBED_FREESTANDING_SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/freestanding/memory.cc")

# Warnings, sanitizers and instruction sets, for the library and the tests.
function(edge_embed_compile_options target)
  foreach(variant IN LISTS EDGE_EMBED_VARIANTS)  # a multiplication and an addition may become one instruction
    set_source_files_properties("${PROJECT_SOURCE_DIR}/kernels/isa/${variant}.cc" PROPERTIES COMPILE_OPTIONS
                                "-ffp-contract=fast;$<$<CONFIG:Release>:${EDGE_EMBED_LEVEL_${variant}}>;${EDGE_EMBED_FLAGS_${variant}}")
    set_source_files_properties("${PROJECT_SOURCE_DIR}/kernels/entmax/isa/${variant}.cc" PROPERTIES COMPILE_OPTIONS
                                "-ffp-contract=fast;-fno-math-errno;$<$<CONFIG:Release>:${EDGE_EMBED_LEVEL_${variant}}>;${EDGE_EMBED_FLAGS_${variant}}")
    set_source_files_properties("${PROJECT_SOURCE_DIR}/training/isa/${variant}.cc" PROPERTIES COMPILE_OPTIONS
                                "-ffp-contract=fast;-fno-math-errno;$<$<CONFIG:Release>:-O3>;${EDGE_EMBED_FLAGS_${variant}}")
    set_source_files_properties("${PROJECT_SOURCE_DIR}/bench/isa/${variant}.cc" PROPERTIES COMPILE_OPTIONS
                                "-ffp-contract=fast;$<$<CONFIG:Release>:-O3>;${EDGE_EMBED_FLAGS_${variant}}")
  endforeach()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O2>)  # the rest need not be large
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
                                           -Wcast-qual -Wundef)
  target_compile_options(${target} PRIVATE ${EDGE_EMBED_METHODS_OPTION})
  target_compile_definitions(${target} PRIVATE EDGE_EMBED_VERSION="${EDGE_EMBED_VERSION}"
                                               $<$<BOOL:${EDGE_EMBED_ENTMAX}>:EDGE_EMBED_ENTMAX>
                                               $<$<BOOL:${EDGE_EMBED_NO_DPQ_SCALED}>:EDGE_EMBED_NO_DPQ_SCALED>)
  if(WIN32)  # ONNX Runtime's header is written for MSVC there
    target_compile_options(${target} PRIVATE "-D_Return_type_success_(x)=")
  endif()
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/..")
  if(EDGE_EMBED_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endif()
endfunction()

function(edge_embed_freestanding_options target)
  target_sources(${target} PRIVATE "${EDGE_EMBED_FREESTANDING_SOURCE}")
  target_compile_options(${target} PRIVATE -ffreestanding -fno-stack-protector)
  # Otherwise, the compiler replaces the loop of memset by a call of memset.
  check_cxx_compiler_flag(-fno-tree-loop-distribute-patterns EDGE_EMBED_HAS_NO_LOOP_PATTERNS)
  if(EDGE_EMBED_HAS_NO_LOOP_PATTERNS)
    set_source_files_properties("${EDGE_EMBED_FREESTANDING_SOURCE}" PROPERTIES COMPILE_OPTIONS
                                "-fno-tree-loop-distribute-patterns")
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    # Atomics are inlined, without calls of libgcc. Android and Apple reserve x18 for the system.
    target_compile_options(${target} PRIVATE -mno-outline-atomics -ffixed-x18)
  endif()
  if(EDGE_EMBED_ZIG AND CMAKE_SYSTEM_PROCESSOR STREQUAL "arm")  # divides by functions of the compiler's own library
    target_link_options(${target} PRIVATE -nodefaultlibs)
  elseif(ANDROID AND CMAKE_SYSTEM_PROCESSOR MATCHES "^arm")  # the same with the NDK
    target_link_options(${target} PRIVATE -nolibc -nostartfiles)
  else()
    target_link_options(${target} PRIVATE -nostdlib)
  endif()
  target_link_options(${target} PRIVATE LINKER:-z,max-page-size=16384)  # Android's page size
endfunction()

# Link options of every library; its name has no prefix on Windows.
function(edge_embed_link_options target)
  if(WIN32)
    set_target_properties(${target} PROPERTIES PREFIX "" IMPORT_PREFIX "" IMPORT_SUFFIX .lib)
    target_link_options(${target} PRIVATE $<$<CONFIG:Release>:-s>)
  elseif(APPLE)
    target_link_options(${target} PRIVATE LINKER:-dead_strip $<$<CONFIG:Release>:-s>)
  else()
    target_link_options(${target} PRIVATE LINKER:--gc-sections LINKER:--as-needed $<$<CONFIG:Release>:LINKER:-s>)
    if(EDGE_EMBED_PACKAGE)  # the largest pages of Android and of arm64 Linux
      target_link_options(${target} PRIVATE LINKER:-z,max-page-size=16384)
    endif()
    if(NOT EDGE_EMBED_ZIG)  # whose linker lacks the option
      # Code and constant data share pages: separate pages would add 8 kB to the file.
      target_link_options(${target} PRIVATE LINKER:-z,noseparate-code)
    endif()
  endif()
endfunction()

set(EDGE_EMBED_LIBRARY_KIND SHARED)
if(EDGE_EMBED_STATIC)
  set(EDGE_EMBED_LIBRARY_KIND STATIC)
endif()

# A library of all kernels and adapters.
function(edge_embed_add_ops_library target freestanding)
  add_library(${target} ${EDGE_EMBED_LIBRARY_KIND} ${EDGE_EMBED_KERNEL_SOURCES} ${EDGE_EMBED_C_API_SOURCES}
                               ${EDGE_EMBED_ORT_SOURCES})
  edge_embed_compile_options(${target})
  edge_embed_link_options(${target})
  # SYSTEM: warnings in the header of another project are not errors.
  target_include_directories(${target} SYSTEM PRIVATE "${ONNXRUNTIME_INCLUDE_DIR}")
  # Adapters only check sizes and call kernels, so size is more important than speed.
  set_source_files_properties(${EDGE_EMBED_SMALL_SOURCES} ${EDGE_EMBED_C_API_SOURCES} ${EDGE_EMBED_ORT_SOURCES}
                              PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-Os>")
  target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti -fno-threadsafe-statics
                                           -ffunction-sections -fdata-sections
                                           -fno-asynchronous-unwind-tables -fno-unwind-tables)
  if(freestanding)
    edge_embed_freestanding_options(${target})
  endif()
  if(UNIX AND NOT APPLE AND NOT EDGE_EMBED_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:--no-undefined)  # sanitizers: from the program's runtime
  endif()
endfunction()

# Kernels that a training process on the host calls by their C interface.
function(edge_embed_add_training_library target)
  add_library(${target} SHARED ${EDGE_EMBED_TRAINING_SOURCES})
  edge_embed_compile_options(${target})
  edge_embed_link_options(${target})
  target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti)
endfunction()

# The library for `edge-embed bench`.
function(edge_embed_add_bench_library target)
  add_library(${target} SHARED ${EDGE_EMBED_BENCH_SOURCES})
  edge_embed_compile_options(${target})
  edge_embed_link_options(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)  # unrolls what is to stay in registers
endfunction()

# The program that runs a model by the C interface of ONNX Runtime, which it loads at run time. The C++ library is
# linked statically, so that the program starts on every device with this processor.
function(edge_embed_add_runner target)
  add_executable(${target} "${PROJECT_SOURCE_DIR}/runner/count.cc" "${PROJECT_SOURCE_DIR}/runner/main.cc"
                           "${PROJECT_SOURCE_DIR}/runner/session.cc" "${PROJECT_SOURCE_DIR}/runner/tensors.cc")
  edge_embed_compile_options(${target})
  target_include_directories(${target} SYSTEM PRIVATE "${ONNXRUNTIME_INCLUDE_DIR}")
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  if(NOT APPLE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc $<$<CONFIG:Release>:LINKER:-s>)
  endif()
endfunction()

# The TFLite delegate, which calls the operator library beside it by the C interface.
function(edge_embed_add_tflite_library target ops_library)
  add_library(${target} ${EDGE_EMBED_LIBRARY_KIND} ${EDGE_EMBED_TFLITE_SOURCES})
  edge_embed_compile_options(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os> -fno-exceptions -fno-rtti
                                           -fno-threadsafe-statics -ffunction-sections -fdata-sections
                                           -fno-asynchronous-unwind-tables -fno-unwind-tables)
  target_link_libraries(${target} PRIVATE ${ops_library})
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$<IF:$<PLATFORM_ID:Darwin>,@loader_path,$ORIGIN>"
                                             BUILD_RPATH_USE_ORIGIN ON)
  edge_embed_link_options(${target})
  if(EDGE_EMBED_ANDROID AND NOT TARGET edge_embed_android_libc)
    add_library(edge_embed_android_libc SHARED package/android_libc.cc)
    set_target_properties(edge_embed_android_libc PROPERTIES OUTPUT_NAME c)
    target_compile_options(edge_embed_android_libc PRIVATE -fno-builtin)
    target_link_options(edge_embed_android_libc PRIVATE -nostdlib)
    target_compile_options(${target} PRIVATE -fno-stack-protector $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},aarch64>:-ffixed-x18>)
    target_link_options(${target} PRIVATE "$<TARGET_FILE:edge_embed_android_libc>")
    add_dependencies(${target} edge_embed_android_libc)
    target_link_options(${target} PRIVATE -nostdlib)
  endif()
endfunction()
