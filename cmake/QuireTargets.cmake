# How every target of Quire is compiled.
#
# quire_add_layer(NAME [LINK libs...] [PRIVATE_LINK libs...])  a static library from all sources of src/NAME,
#                                                              installed and exported as quire::NAME
# quire_add_tests(NAME [LINK libs...] [PROCESSORS n] [HAS_LONG]) one GoogleTest binary from all sources of tests/NAME,
#                                                              each test of which keeps n processors busy. With
#                                                              HAS_LONG, suites named *Long* have the label `long`:
#                                                              `./dev test` leaves them out

add_library(quire_build_flags INTERFACE)
target_compile_options(quire_build_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
  # Law 1: no compiler may fuse or reorder floating-point arithmetic on its own.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these inside libstdc++ and fmt when it inlines; clang keeps the warnings alive.
  # Nor does it know that a designated initialiser leaves the other members to their defaults.
  target_compile_options(quire_build_flags INTERFACE -Wno-missing-field-initializers -Wno-maybe-uninitialized -Wno-stringop-overflow
    -Wno-array-bounds -Wno-restrict -Wno-dangling-reference -Wno-psabi)
endif()
target_include_directories(quire_build_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
if(QUIRE_SANITIZE)
  target_compile_options(quire_build_flags INTERFACE -fsanitize=${QUIRE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(quire_build_flags INTERFACE -fsanitize=${QUIRE_SANITIZE})
endif()
if(QUIRE_BUILD_FUZZERS)
  target_compile_options(quire_build_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(QUIRE_CCACHE ccache)
if(QUIRE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${QUIRE_CCACHE})
endif()

find_program(QUIRE_MOLD mold)
if(QUIRE_MOLD AND NOT QUIRE_SANITIZE)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
    add_link_options(-fuse-ld=mold)
  endif()
endif()

function(quire_add_layer name)
  cmake_parse_arguments(ARG "" "" "LINK;PRIVATE_LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  # Headers of one instruction set compile only inside the sources made for it; no other header needs them.
  list(FILTER headers EXCLUDE REGEX "/src/kernels/simd/")
  add_library(quire_${name} STATIC ${sources})
  add_library(quire::${name} ALIAS quire_${name})
  target_sources(quire_${name} PUBLIC FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${headers})
  target_link_libraries(quire_${name} PUBLIC ${ARG_LINK} PRIVATE $<BUILD_INTERFACE:quire_build_flags> ${ARG_PRIVATE_LINK})
  target_compile_features(quire_${name} PUBLIC cxx_std_20)
  set_target_properties(quire_${name} PROPERTIES EXPORT_NAME ${name})
  if(NOT name STREQUAL "cli")  # the command line is a program, not a library for others
    install(TARGETS quire_${name} EXPORT QuireTargets
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
      FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/quire)
  endif()
endfunction()

function(quire_add_tests name)
  cmake_parse_arguments(ARG "HAS_LONG" "PROCESSORS" "LINK" ${ARGN})
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(quire_${name}_tests ${sources})
  target_include_directories(quire_${name}_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(quire_${name}_tests PRIVATE
    QUIRE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
    QUIRE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(quire_${name}_tests PRIVATE quire_build_flags ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  set(short)
  if(ARG_HAS_LONG)
    gtest_discover_tests(quire_${name}_tests DISCOVERY_TIMEOUT 60 TEST_FILTER "*Long*.*"
      PROPERTIES LABELS long PROCESSORS ${ARG_PROCESSORS})
    set(short TEST_FILTER "-*Long*.*")
  endif()
  gtest_discover_tests(quire_${name}_tests DISCOVERY_TIMEOUT 60 ${short}
    PROPERTIES LABELS ${name} PROCESSORS ${ARG_PROCESSORS})
endfunction()
