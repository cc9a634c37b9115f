# The methods of the library: all of kernels/methods.h, or some of them. `entmax` stands for the operators of sparse
# activations, which use no table.
set(EDGE_EMBED_METHODS all CACHE STRING "Methods whose operators the library has, such as \"dpq;tt\"; or all")

set(list_of_methods "${CMAKE_CURRENT_SOURCE_DIR}/kernels/methods.h")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list_of_methods}")
file(STRINGS "${list_of_methods}" line REGEX "define EDGE_EMBED_METHODS")
string(REGEX MATCHALL "X\\([a-z_]+, [A-Z_]+\\)" entries "${line}")
list(TRANSFORM entries REPLACE "X\\(([a-z_]+),.*" "\\1" OUTPUT_VARIABLE EDGE_EMBED_TABLE_METHODS)
if(EDGE_EMBED_WEB)  # pages download the kernels, and the browser's ONNX Runtime runs the bodies
  list(REMOVE_ITEM EDGE_EMBED_TABLE_METHODS dpq_scaled tiered)
endif()
set(EDGE_EMBED_ALL_METHODS ${EDGE_EMBED_TABLE_METHODS})
if(NOT EDGE_EMBED_WEB)
  list(APPEND EDGE_EMBED_ALL_METHODS entmax)
endif()

set(EDGE_EMBED_CHOSEN_METHODS ${EDGE_EMBED_ALL_METHODS})
if(NOT EDGE_EMBED_METHODS STREQUAL all)
  set(EDGE_EMBED_CHOSEN_METHODS ${EDGE_EMBED_METHODS})
  list(REMOVE_DUPLICATES EDGE_EMBED_CHOSEN_METHODS)
endif()
set(unknown ${EDGE_EMBED_CHOSEN_METHODS})
list(REMOVE_ITEM unknown ${EDGE_EMBED_ALL_METHODS})
if(unknown OR NOT EDGE_EMBED_CHOSEN_METHODS)
  message(FATAL_ERROR "EDGE_EMBED_METHODS: got \"${EDGE_EMBED_METHODS}\", expected all, or some of "
                      "\"${EDGE_EMBED_ALL_METHODS}\"")
endif()

if(dpq_scaled IN_LIST EDGE_EMBED_CHOSEN_METHODS AND NOT dpq IN_LIST EDGE_EMBED_CHOSEN_METHODS)
  message(FATAL_ERROR "EDGE_EMBED_METHODS: got \"${EDGE_EMBED_METHODS}\", expected dpq too: the kernels of dpq_scaled "
                      "call those of dpq")
endif()
if(tiered IN_LIST EDGE_EMBED_CHOSEN_METHODS AND NOT dpq_scaled IN_LIST EDGE_EMBED_CHOSEN_METHODS)
  message(FATAL_ERROR "EDGE_EMBED_METHODS: got \"${EDGE_EMBED_METHODS}\", expected dpq and dpq_scaled too: the kernels "
                      "of tiered call theirs")
endif()

set(EDGE_EMBED_ENTMAX OFF)
set(tables ${EDGE_EMBED_CHOSEN_METHODS})
if(entmax IN_LIST tables)
  set(EDGE_EMBED_ENTMAX ON)
  list(REMOVE_ITEM tables entmax)
endif()
if(NOT tables)
  message(FATAL_ERROR "EDGE_EMBED_METHODS: got \"${EDGE_EMBED_METHODS}\", expected at least one of "
                      "\"${EDGE_EMBED_TABLE_METHODS}\"")
endif()

set(EDGE_EMBED_NO_DPQ_SCALED OFF)
if(NOT dpq_scaled IN_LIST tables)
  set(EDGE_EMBED_NO_DPQ_SCALED ON)
endif()

# The list for C++, if it differs from that of the file.
set(EDGE_EMBED_METHODS_OPTION "")
if(EDGE_EMBED_WEB OR NOT EDGE_EMBED_METHODS STREQUAL all)
  foreach(method IN LISTS tables)
    string(TOUPPER ${method} name)
    string(APPEND EDGE_EMBED_METHODS_OPTION " X(${method}, ${name})")
  endforeach()
  string(PREPEND EDGE_EMBED_METHODS_OPTION "-DEDGE_EMBED_METHODS(X)=")
endif()
