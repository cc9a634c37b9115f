# Toolchain file: the compiler of zig, which has headers and libc stubs of other systems, for EDGE_EMBED_ZIG_TARGET.
# Zig comes from PATH, or from the Python package ziglang.
set(EDGE_EMBED_ZIG_TARGET "" CACHE STRING "Target of zig, such as x86_64-linux-gnu.2.17")
set(EDGE_EMBED_ZIG_FLAGS "" CACHE STRING "More flags of zig; it ignores -ffixed-x18, which is -mcpu=generic+reserve_x18 here")
set(EDGE_EMBED_ZIG_DRIVER "cc" CACHE STRING "c++ builds and links zig's C++ standard library, for training and the runner")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES EDGE_EMBED_ZIG EDGE_EMBED_ZIG_TARGET EDGE_EMBED_ZIG_FLAGS EDGE_EMBED_ZIG_DRIVER)

if(NOT EDGE_EMBED_ZIG)
  find_program(EDGE_EMBED_ZIG zig)
endif()
if(NOT EDGE_EMBED_ZIG)
  find_program(python NAMES python3 python NO_CACHE)
  if(python)
    execute_process(COMMAND "${python}" -c "import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / 'zig')"
                    OUTPUT_VARIABLE zig OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(NOT zig)
    message(FATAL_ERROR "zig was found neither in PATH nor as the Python package ziglang: python -m pip install ziglang")
  endif()
  set(EDGE_EMBED_ZIG "${zig}" CACHE FILEPATH "Program zig" FORCE)
endif()
if(NOT EDGE_EMBED_ZIG_TARGET MATCHES "^([a-z0-9_]+)-(linux|macos|windows|ios|freestanding)")
  message(FATAL_ERROR "EDGE_EMBED_ZIG_TARGET: got \"${EDGE_EMBED_ZIG_TARGET}\", expected a target such as "
                      "x86_64-linux-gnu.2.17: choose one of `cmake --list-presets`")
endif()
set(CMAKE_SYSTEM_PROCESSOR "${CMAKE_MATCH_1}")
set(system "${CMAKE_MATCH_2}")
set(system_linux Linux)  # Android too: what CMake knows of Android is about the NDK
set(system_macos Darwin)
set(system_ios Darwin)  # CMake's iOS requires an SDK
set(system_windows Windows)
set(system_freestanding Generic)
set(CMAKE_SYSTEM_NAME "${system_${system}}")

set(CMAKE_CXX_COMPILER "${EDGE_EMBED_ZIG}" "${EDGE_EMBED_ZIG_DRIVER}")
set(CMAKE_CXX_COMPILER_ID_TEST_FLAGS_FIRST -c)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # a program would need the libc of each target
set(CMAKE_CXX_FLAGS_INIT "-target ${EDGE_EMBED_ZIG_TARGET} ${EDGE_EMBED_ZIG_FLAGS}")
set(CMAKE_CXX_FLAGS_RELEASE_INIT "-g0")  # zig adds debug information, with the paths of this machine
foreach(kind IN ITEMS EXE MODULE SHARED)  # no strip of this machine knows the formats of others
  set(CMAKE_${kind}_LINKER_FLAGS_RELEASE_INIT "-s")
endforeach()
set(format gnu)
if(CMAKE_SYSTEM_NAME STREQUAL "Darwin")
  set(format darwin)
  set(CMAKE_OSX_SYSROOT "" CACHE STRING "" FORCE)
endif()
if(system STREQUAL "ios")  # whose headers are those of macOS
  get_filename_component(folder "${EDGE_EMBED_ZIG}" DIRECTORY)
  string(APPEND CMAKE_CXX_FLAGS_INIT " -isystem ${folder}/lib/libc/include/any-darwin-any")
endif()
# Archives without times and owners.
set(CMAKE_CXX_ARCHIVE_CREATE "\"${EDGE_EMBED_ZIG}\" ar --format=${format} qcsD <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "\"${EDGE_EMBED_ZIG}\" ar --format=${format} qsD <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "")
