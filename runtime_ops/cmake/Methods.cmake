# The methods that the library has: those of kernels/methods.h.
set(list_of_methods "${CMAKE_CURRENT_SOURCE_DIR}/kernels/methods.h")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list_of_methods}")
file(STRINGS "${list_of_methods}" line REGEX "define EDGE_EMBED_METHODS")
string(REGEX MATCHALL "X\\([a-z_]+, [A-Z_]+\\)" entries "${line}")
foreach(entry IN LISTS entries)
  string(REGEX REPLACE "X\\(([a-z_]+),.*" "\\1" method "${entry}")
  list(APPEND EDGE_EMBED_METHODS ${method})
endforeach()
