# The attention library as one file, and its CMake package.
#
# Target paceline_library, known to users as paceline::paceline, holds the layers up to the C functions: all of
# include/paceline/, no model and no engine. Inside the tree the layers' own targets are used. The program took
# the target name `paceline`.

set(layers base device kv attention kernels capi)
list(TRANSFORM layers REPLACE "(.+)" "$<TARGET_OBJECTS:paceline_\\1>" OUTPUT_VARIABLE objects)
add_library(paceline_library ${objects})
add_library(paceline::paceline ALIAS paceline_library)
set_target_properties(paceline_library PROPERTIES
  OUTPUT_NAME paceline
  EXPORT_NAME paceline
  LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION}
  # Before 1.0 a minor version may change the C++ interface.
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(paceline_library INTERFACE cxx_std_20)
target_include_directories(paceline_library INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:include>")
target_link_libraries(paceline_library PRIVATE fmt::fmt hwy::hwy Threads::Threads)
if(PACELINE_SANITIZE)
  target_link_options(paceline_library PUBLIC -fsanitize=${PACELINE_SANITIZE})
endif()

if(NOT PACELINE_INSTALL)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/paceline")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/paceline" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h")
install(TARGETS paceline_library EXPORT paceline_targets)
install(EXPORT paceline_targets NAMESPACE paceline:: FILE paceline-targets.cmake DESTINATION "${package_dir}")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/paceline-config.cmake.in" "${PROJECT_BINARY_DIR}/paceline-config.cmake"
  INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/paceline-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/paceline-config.cmake" "${PROJECT_BINARY_DIR}/paceline-config-version.cmake"
  DESTINATION "${package_dir}")
