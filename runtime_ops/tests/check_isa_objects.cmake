# What is compiled for one instruction set must not be shared with code for others: the linker keeps one copy of every
# weak function, and might keep the one that older processors cannot run. Code that all processors run may be shared.
# Usage: cmake -DREADELF=... "-DOBJECTS=a.o;b.o" -P check_isa_objects.cmake
foreach(folder IN ITEMS kernels/isa kernels/entmax/isa training/isa)
  set(objects ${OBJECTS})
  list(FILTER objects INCLUDE REGEX "${folder}/")
  if(NOT objects)
    message(FATAL_ERROR "no objects of ${folder}/ among ${OBJECTS}")
  endif()
  list(FILTER objects EXCLUDE REGEX "${folder}/portable")  # elsewhere than on x86-64 nothing else may be there
  list(APPEND checked ${objects})
endforeach()
foreach(object IN LISTS checked)
  execute_process(COMMAND "${READELF}" --syms --wide "${object}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL " FUNC +WEAK +[^\n]*" weak "${symbols}")
  if(weak)
    list(JOIN weak "\n" shown)
    message(FATAL_ERROR "${object} defines weak functions; inline them or put them into an unnamed namespace:\n${shown}")
  endif()
endforeach()
