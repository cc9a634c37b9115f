# Finds ONNXRUNTIME_INCLUDE_DIR, a folder with onnxruntime_c_api.h, in this order:
#   1. -DONNXRUNTIME_INCLUDE_DIR=..., the environment variable of that name, the usual include folders;
#   2. headers that an earlier build downloaded (the cache of the user);
#   3. Debian's package libonnxruntime-dev, downloaded and unpacked without root;
#   4. the release archive of ONNX Runtime, by URL and hash.
# 3 and 4 store the header in the cache of the user. It is plain C and the same on every platform.

# The header is only for compilation. The library requests API 17 at run time, so any header from 1.17 on is sufficient.
set(EDGE_EMBED_MIN_ORT_API 17)
set(ONNXRUNTIME_ARCHIVE_URL
    "https://github.com/microsoft/onnxruntime/releases/download/v1.22.0/onnxruntime-linux-x64-1.22.0.tgz"
    CACHE STRING "Release archive of ONNX Runtime to take the C headers from (its headers fit any platform)")
set(ONNXRUNTIME_ARCHIVE_SHA256 "8344d55f93d5bc5021ce342db50f62079daf39aaafb5d311a451846228be49b3"
    CACHE STRING "SHA-256 of ONNXRUNTIME_ARCHIVE_URL")

# The API version of the header in `folder`; 0 if there is no header.
function(edge_embed_header_api folder out)
  set(line "")
  if(EXISTS "${folder}/onnxruntime_c_api.h")
    file(STRINGS "${folder}/onnxruntime_c_api.h" line REGEX "^#define ORT_API_VERSION [0-9]+" LIMIT_COUNT 1)
  endif()
  if(line MATCHES "([0-9]+)$")
    set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  else()
    set(${out} 0 PARENT_SCOPE)
  endif()
endfunction()

function(edge_embed_header_cache out)
  if(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(${out} "$ENV{XDG_CACHE_HOME}/edge-embed" PARENT_SCOPE)
  elseif(NOT "$ENV{HOME}" STREQUAL "")
    set(${out} "$ENV{HOME}/.cache/edge-embed" PARENT_SCOPE)
  else()
    set(${out} "${CMAKE_BINARY_DIR}" PARENT_SCOPE)
  endif()
endfunction()

# Moves the headers in `folder` to the cache by a rename, so that no build sees a part of them. `out` is their new
# place, or `folder` itself if the cache cannot be written.
function(edge_embed_store_headers folder out)
  edge_embed_header_api("${folder}" api)
  edge_embed_header_cache(cache)
  set(target "${cache}/onnxruntime-headers-1.${api}")
  edge_embed_header_api("${target}" present)
  if(NOT present)
    string(RANDOM LENGTH 8 suffix)
    execute_process(COMMAND "${CMAKE_COMMAND}" -E copy_directory "${folder}" "${target}.${suffix}"
                    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
      file(RENAME "${target}.${suffix}" "${target}" RESULT ignored)  # fails where another build was first
    endif()
    file(REMOVE_RECURSE "${target}.${suffix}")
  endif()
  edge_embed_header_api("${target}" present)
  if(present)
    set(${out} "${target}" PARENT_SCOPE)
  else()
    set(${out} "${folder}" PARENT_SCOPE)
  endif()
endfunction()

function(edge_embed_cached_headers out)
  set(${out} "" PARENT_SCOPE)
  edge_embed_header_cache(cache)
  file(GLOB folders "${cache}/onnxruntime-headers-*")
  foreach(folder IN LISTS folders)
    edge_embed_header_api("${folder}" api)
    if(folder MATCHES "headers-1\\.[0-9]+$" AND api GREATER_EQUAL EDGE_EMBED_MIN_ORT_API)
      set(${out} "${folder}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

function(edge_embed_debian_headers out)
  set(${out} "" PARENT_SCOPE)
  find_program(EDGE_EMBED_APT_GET apt-get)
  mark_as_advanced(EDGE_EMBED_APT_GET)
  if(NOT EDGE_EMBED_APT_GET)
    return()
  endif()
  message(STATUS "ONNX Runtime headers: downloading Debian's package libonnxruntime-dev")
  set(work "${CMAKE_BINARY_DIR}/debian-headers")
  execute_process(COMMAND sh "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/debian_headers.sh" "${work}"
                  RESULT_VARIABLE failed OUTPUT_VARIABLE log ERROR_VARIABLE log)
  set(folder "${work}/usr/include/onnxruntime")
  edge_embed_header_api("${folder}" api)
  if(failed OR api LESS EDGE_EMBED_MIN_ORT_API)
    message(STATUS "ONNX Runtime headers: not from Debian's package:\n${log}")
    return()
  endif()
  edge_embed_store_headers("${folder}" stored)
  set(${out} "${stored}" PARENT_SCOPE)
endfunction()

function(edge_embed_archive_headers out)
  set(${out} "" PARENT_SCOPE)
  message(STATUS "ONNX Runtime headers: downloading ${ONNXRUNTIME_ARCHIVE_URL}")
  set(work "${CMAKE_BINARY_DIR}/archive-headers")
  file(REMOVE_RECURSE "${work}")
  file(DOWNLOAD "${ONNXRUNTIME_ARCHIVE_URL}" "${work}/archive.tgz" STATUS status INACTIVITY_TIMEOUT 30)
  list(POP_FRONT status failed reason)
  if(failed)
    message(STATUS "ONNX Runtime headers: not from the release archive: ${reason}")
    return()
  endif()
  file(SHA256 "${work}/archive.tgz" hash)
  if(NOT hash STREQUAL ONNXRUNTIME_ARCHIVE_SHA256)
    message(FATAL_ERROR "${ONNXRUNTIME_ARCHIVE_URL}: got SHA-256 ${hash}, expected "
                        "${ONNXRUNTIME_ARCHIVE_SHA256}. The archive is not the one that was pinned: pass "
                        "-DONNXRUNTIME_INCLUDE_DIR, or set ONNXRUNTIME_ARCHIVE_SHA256 if you trust it.")
  endif()
  file(ARCHIVE_EXTRACT INPUT "${work}/archive.tgz" DESTINATION "${work}" PATTERNS "*/include/*")
  file(GLOB folder "${work}/*/include")
  edge_embed_header_api("${folder}" api)
  if(api GREATER_EQUAL EDGE_EMBED_MIN_ORT_API)
    edge_embed_store_headers("${folder}" stored)
    set(${out} "${stored}" PARENT_SCOPE)
  endif()
endfunction()

find_path(ONNXRUNTIME_INCLUDE_DIR onnxruntime_c_api.h
          HINTS ENV ONNXRUNTIME_INCLUDE_DIR
          PATH_SUFFIXES onnxruntime onnxruntime/core/session include
          DOC "Folder with onnxruntime_c_api.h of ONNX Runtime 1.17 or newer")
edge_embed_header_api("${ONNXRUNTIME_INCLUDE_DIR}" api)
if(api LESS EDGE_EMBED_MIN_ORT_API)
  if(ONNXRUNTIME_INCLUDE_DIR)
    message(STATUS "ONNX Runtime headers: ${ONNXRUNTIME_INCLUDE_DIR} has API version ${api}, "
                   "expected ${EDGE_EMBED_MIN_ORT_API} or newer: looking elsewhere")
  endif()
  set(found "")
  foreach(way IN ITEMS cached debian archive)
    if(NOT found)
      cmake_language(CALL edge_embed_${way}_headers found)
    endif()
  endforeach()
  if(NOT found)
    message(FATAL_ERROR
            "onnxruntime_c_api.h of ONNX Runtime 1.17 or newer was not found. Three ways to provide it:\n"
            "  1. pass -DONNXRUNTIME_INCLUDE_DIR=FOLDER, or set the environment variable of that name;\n"
            "  2. install your system's package (libonnxruntime-dev of Debian 13 or later);\n"
            "  3. download a release archive of ONNX Runtime, unpack it, and give its include folder as in 1,\n"
            "     or set -DONNXRUNTIME_ARCHIVE_URL and -DONNXRUNTIME_ARCHIVE_SHA256 to a copy you can reach.")
  endif()
  set(ONNXRUNTIME_INCLUDE_DIR "${found}" CACHE PATH "Folder with onnxruntime_c_api.h" FORCE)
endif()
message(STATUS "ONNX Runtime headers: ${ONNXRUNTIME_INCLUDE_DIR}")
