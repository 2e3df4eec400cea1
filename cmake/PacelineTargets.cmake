# Helpers that give every target the same flags.
#
#   paceline_layer(NAME SOURCES a.cc ... [DEPS targets...])   a static library, target paceline_NAME
#   paceline_test(NAME SOURCES a_test.cc ... DEPS targets...) a GoogleTest program, known to CTest

add_library(paceline_flags INTERFACE)
target_compile_options(paceline_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  $<$<BOOL:${PACELINE_WERROR}>:-Werror>
  # Bits must not depend on what the optimiser fuses: FMA is written where it is meant.
  -ffp-contract=off)
target_include_directories(paceline_flags INTERFACE
  "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
if(PACELINE_SANITIZE)
  target_compile_options(paceline_flags INTERFACE
    -fsanitize=${PACELINE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(paceline_flags INTERFACE -fsanitize=${PACELINE_SANITIZE})
endif()
if(PACELINE_FUZZ)
  target_compile_options(paceline_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Highway, and which of its targets are built: each costs compile time, and every x86-64 machine of the last
# decade has AVX2. Machines without it use the SSE4 build. Sanitizers look at one build of the kernels.
add_library(paceline_simd INTERFACE)
target_link_libraries(paceline_simd INTERFACE hwy::hwy)
if(PACELINE_SANITIZE)
  set(unused_targets "(HWY_SSSE3|HWY_SSE4|HWY_AVX3|HWY_AVX3_DL)")
else()
  set(unused_targets "(HWY_SSSE3|HWY_AVX3_DL)")
endif()
target_compile_definitions(paceline_simd INTERFACE "HWY_DISABLED_TARGETS=${unused_targets}")

function(paceline_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(paceline_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(paceline_${name} PUBLIC paceline_flags ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
endfunction()

function(paceline_test name)
  if(NOT PACELINE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
  if(ARG_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
endfunction()
