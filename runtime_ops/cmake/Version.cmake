# Sets EDGE_EMBED_VERSION from the wheel build, else from pyproject.toml, its only source.
if(DEFINED SKBUILD_PROJECT_VERSION_FULL)
  set(EDGE_EMBED_VERSION "${SKBUILD_PROJECT_VERSION_FULL}")
elseif(DEFINED SKBUILD_PROJECT_VERSION)
  set(EDGE_EMBED_VERSION "${SKBUILD_PROJECT_VERSION}")
else()
  set(pyproject "${CMAKE_CURRENT_SOURCE_DIR}/../pyproject.toml")
  set(version_line "")
  if(EXISTS "${pyproject}")
    file(STRINGS "${pyproject}" version_line REGEX "^version *= *\"[^\"]+\"" LIMIT_COUNT 1)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${pyproject}")
  endif()
  if(NOT version_line MATCHES "\"([^\"]+)\"")
    message(FATAL_ERROR "No version: expected a line version = \"x.y.z\" in ${pyproject}. "
                        "Build inside the repository, or pass -DSKBUILD_PROJECT_VERSION=x.y.z, the "
                        "version of the edge-embed package that these sources belong to.")
  endif()
  set(EDGE_EMBED_VERSION "${CMAKE_MATCH_1}")
endif()
