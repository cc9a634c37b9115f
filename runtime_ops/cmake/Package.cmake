# Install rules of a package for one platform: headers, libraries, CMake and pkg-config files, in the component `package`.
set(EDGE_EMBED_LIBRARY_FOLDER lib)
set(cmake_folder ${EDGE_EMBED_LIBRARY_FOLDER}/cmake/edge_embed_ops)
set(headers c_api/edge_embed.h kernels/export.h kernels/limits.h kernels/status.h kernels/type.h)

# Adds the static library of a shared one, from the same objects. Not on Windows: the objects call functions of MinGW.
function(edge_embed_add_static target)
  add_library(${target}_static STATIC $<TARGET_OBJECTS:${target}>)
  set_target_properties(${target}_static PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME ${target})
endfunction()

function(edge_embed_install_library target name)
  # Names and paths are final when a library is linked, because tools that change them are absent elsewhere than on macOS.
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} BUILD_WITH_INSTALL_RPATH ON
                                             BUILD_WITH_INSTALL_NAME_DIR ON INSTALL_NAME_DIR @rpath)
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:include>)
  install(TARGETS ${target} EXPORT edge_embed_ops COMPONENT package
          ARCHIVE DESTINATION ${EDGE_EMBED_LIBRARY_FOLDER} COMPONENT package
          LIBRARY DESTINATION ${EDGE_EMBED_LIBRARY_FOLDER} COMPONENT package
          RUNTIME DESTINATION bin COMPONENT package)
endfunction()

foreach(name IN ITEMS ops tflite)
  set(target edge_embed_${name})
  if(TARGET ${target})
    edge_embed_install_library(${target} ${name})
    if(NOT WIN32 AND NOT EDGE_EMBED_FREESTANDING AND EDGE_EMBED_LIBRARY_KIND STREQUAL SHARED)
      edge_embed_add_static(${target})
      edge_embed_install_library(${target}_static ${name}_static)
    endif()
  endif()
endforeach()
if(TARGET edge_embed_tflite_static)
  target_link_libraries(edge_embed_tflite_static INTERFACE edge_embed_ops_static)
endif()

foreach(header IN LISTS headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION include/edge_embed/${folder} COMPONENT package)
endforeach()
install(DIRECTORY package/include/ DESTINATION include COMPONENT package)
install(EXPORT edge_embed_ops FILE edge_embed_ops-config.cmake NAMESPACE edge_embed:: DESTINATION ${cmake_folder}
        COMPONENT package)
include(CMakePackageConfigHelpers)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/edge_embed_ops-config-version.cmake"
                                 VERSION ${EDGE_EMBED_VERSION} COMPATIBILITY ExactVersion)
install(FILES "${PROJECT_BINARY_DIR}/edge_embed_ops-config-version.cmake" DESTINATION ${cmake_folder} COMPONENT package)
foreach(name IN ITEMS ops tflite)
  if(TARGET edge_embed_${name})
    configure_file(package/edge_embed_${name}.pc.in edge_embed_${name}.pc @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/edge_embed_${name}.pc" DESTINATION ${EDGE_EMBED_LIBRARY_FOLDER}/pkgconfig
            COMPONENT package)
  endif()
endforeach()
