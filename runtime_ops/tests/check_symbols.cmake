# What a built library exports, and for a freestanding one that it needs nothing from anywhere.
# Usage: cmake -DREADELF=... -DLIBRARY=... -DFREESTANDING=ON|OFF [-DEXPECTED=NAMES] -P check_symbols.cmake
# EXPECTED: what it exports; without it, all that the operator library does.
set(expected RegisterCustomOps RegisterEdgeEmbedOps ee_bag ee_check ee_gather ee_isa ee_isa_name ee_isa_runs ee_logits
             ee_method_name ee_prepare ee_prepare_bytes ee_scratch_bytes ee_status_message ee_topk ee_version)
if(DEFINED EXPECTED)
  set(expected ${EXPECTED})
endif()
list(SORT expected)

execute_process(COMMAND "${READELF}" --dyn-syms --wide "${LIBRARY}" OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${READELF}" --dynamic --wide "${LIBRARY}" OUTPUT_VARIABLE dynamic
                COMMAND_ERROR_IS_FATAL ANY)

string(REGEX MATCHALL " DEFAULT +[0-9]+ [A-Za-z_][^ \n]*" defined "${symbols}")
list(TRANSFORM defined REPLACE ".* " "")
list(SORT defined)
if(NOT defined STREQUAL expected)
  message(FATAL_ERROR "exported symbols: got ${defined}, expected ${expected}")
endif()

string(REGEX MATCHALL " UND [^ \n]+" undefined "${symbols}")
string(REGEX MATCHALL "\\(NEEDED\\)[^\n]*" needed "${dynamic}")
if(FREESTANDING AND (undefined OR needed))
  message(FATAL_ERROR "a freestanding library needs nothing; got undefined:${undefined} needed: ${needed}")
endif()
if("${needed}" MATCHES "libstdc")
  message(FATAL_ERROR "the library must not need the C++ standard library; got ${needed}")
endif()
message(STATUS "exports ${defined}; undefined:${undefined}; needed: ${needed}")
