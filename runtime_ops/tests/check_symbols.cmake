# What a built library exports, and for a freestanding one that it needs nothing from anywhere.
# Usage: cmake -DREADELF=... -DLIBRARY=... -DFREESTANDING=ON|OFF [-DEXPECTED=NAMES] -P check_symbols.cmake
# EXPECTED: what it exports; without it, all that the operator library does.
set(expected RegisterCustomOps RegisterEdgeEmbedOps ee_isa ee_isa_name ee_isa_runs ee_status_message ee_tt_merge
             ee_tt_merge_bytes ee_version)
foreach(method IN ITEMS ant dpq tt)
  foreach(name IN ITEMS bag_f32_i32 bag_f32_i64 gather_f32_i32 gather_f32_i64 logits_f32 scratch_bytes topk_f32
          topk_scratch_bytes)
    list(APPEND expected ee_${method}_${name})
  endforeach()
endforeach()
list(APPEND expected ee_dpq_blocks_bytes ee_dpq_make_blocks)
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
