# What is compiled for one instruction set must not be shared with code for others: the linker keeps one copy of every
# weak function, and might keep the one that older processors cannot run. Code that all processors run may be shared.
# Usage: cmake -DREADELF=... "-DOBJECTS=a.o;b.o" -P check_isa_objects.cmake
foreach(object IN LISTS OBJECTS)
  if(NOT object MATCHES "kernels/isa/" OR object MATCHES "kernels/isa/portable")
    continue()
  endif()
  execute_process(COMMAND "${READELF}" --syms --wide "${object}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL " FUNC +WEAK +[^\n]*" weak "${symbols}")
  if(weak)
    list(JOIN weak "\n" shown)
    message(FATAL_ERROR "${object} defines weak functions; inline them or put them into an unnamed namespace:\n${shown}")
  endif()
  math(EXPR checked "${checked} + 1")
endforeach()
if(NOT checked GREATER 0)
  message(FATAL_ERROR "no objects of kernels/isa/ among ${OBJECTS}")
endif()
