# A room is a folder of src/ and a static library ramp_<room>; what it may link is what it may include.
set(RAMP_ROOMS base problem choice gpu kernels runtime lab)

function(ramp_room room)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*.cpp)
  if(NOT sources)
    add_library(ramp_${room} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(ramp_${room} STATIC ${sources})
    set(scope PUBLIC)
  endif()
  target_include_directories(ramp_${room} ${scope} ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(ramp_${room} ${scope} ${ARG_DEPENDS})
endfunction()

# Every .h and .cuh a kernel may include, as strings in one generated file: an installed program needs no include path.
function(ramp_embed_sources)
  file(GLOB_RECURSE device CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*.h ${CMAKE_SOURCE_DIR}/src/*.cuh)
  set(out ${CMAKE_BINARY_DIR}/embedded_sources.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DROOT=${CMAKE_SOURCE_DIR}/src -P ${CMAKE_SOURCE_DIR}/cmake/embed_sources.cmake
    DEPENDS ${device} ${CMAKE_SOURCE_DIR}/cmake/embed_sources.cmake)
  target_sources(ramp_kernels PRIVATE ${out})
  # The commit is recorded in plans and measurements; asked for at build time, not at configure time.
  add_custom_target(ramp_commit
    COMMAND ${CMAKE_COMMAND} -DOUT=${CMAKE_BINARY_DIR}/commit.h -DROOT=${CMAKE_SOURCE_DIR} -P ${CMAKE_SOURCE_DIR}/cmake/commit.cmake
    BYPRODUCTS ${CMAKE_BINARY_DIR}/commit.h)
  add_dependencies(ramp_base ramp_commit)
  target_include_directories(ramp_base PRIVATE ${CMAKE_BINARY_DIR})
endfunction()

function(ramp_program)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/*.cpp)
  add_executable(ramp_cli ${sources})
  set_target_properties(ramp_cli PROPERTIES OUTPUT_NAME ramp)
  target_include_directories(ramp_cli PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(ramp_cli PRIVATE ramp_lab ramp_runtime ramp_problem CLI11::CLI11)
  if(RAMP_STATIC)
    # Not -static: the driver and NVRTC are found by dlopen, which a fully static glibc program can't do.
    target_link_options(ramp_cli PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# libramp.so: the C ABI of include/ramp/ramp.h and nothing else.
function(ramp_shared_library)
  if(NOT EXISTS ${CMAKE_SOURCE_DIR}/src/runtime/c_api.cpp)
    return()
  endif()
  add_library(ramp_shared SHARED ${CMAKE_SOURCE_DIR}/src/runtime/c_api.cpp)
  set_target_properties(ramp_shared PROPERTIES OUTPUT_NAME ramp CXX_VISIBILITY_PRESET hidden)
  target_link_libraries(ramp_shared PRIVATE ramp_runtime)
  target_link_options(ramp_shared PRIVATE -Wl,--exclude-libs,ALL -static-libstdc++ -static-libgcc)
endfunction()

function(ramp_tests)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  foreach(room ${RAMP_ROOMS} cli)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${room}/*_test.cpp)
    if(sources)
      add_executable(test_${room} ${sources})
      target_include_directories(test_${room} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src)
      # Tests wait for their compiler, not for themselves: a third less time to build.
      target_compile_options(test_${room} PRIVATE -O0)
      target_compile_definitions(test_${room} PRIVATE
        RAMP_SOURCE_DIR="${CMAKE_SOURCE_DIR}" RAMP_PROGRAM="$<TARGET_FILE:ramp_cli>")
      if(room STREQUAL cli)
        target_link_libraries(test_${room} PRIVATE ramp_lab ramp_runtime GTest::gtest_main)
        add_dependencies(test_${room} ramp_cli)
      else()
        target_link_libraries(test_${room} PRIVATE ramp_${room} GTest::gtest_main)
      endif()
      gtest_discover_tests(test_${room} TEST_PREFIX "${room}." DISCOVERY_TIMEOUT 60)
    endif()
  endforeach()
  ramp_emulated_tests()
  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_FOUND)
    add_test(NAME house.layers COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/check_layers.py ${CMAKE_SOURCE_DIR})
    add_test(NAME house.readme COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/check_readme.py ${CMAKE_SOURCE_DIR}
      $<TARGET_FILE:ramp_cli>)
    add_test(NAME house.vllm_table COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/lab/vllm_table_check.py
      ${CMAKE_SOURCE_DIR} $<TARGET_FILE:ramp_cli>)
    add_test(NAME house.pack_measured COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/lab/pack_measured_check.py
      ${CMAKE_SOURCE_DIR})
    add_test(NAME house.policies COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/policy_tables.py
      ${CMAKE_SOURCE_DIR} $<TARGET_FILE:ramp_cli>)
    set_tests_properties(house.policies PROPERTIES LABELS slow)  # thirty evaluations
  endif()
endfunction()

# The kernels' own sources, compiled as C++ and run on an emulated GPU (tests/emulator).  Not under the
# sanitizers: they lose track of fibers.
function(ramp_emulated_tests)
  if(RAMP_SANITIZE)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/emulator/*.cpp)
  add_executable(test_emulator ${sources})
  # The emulated instructions stand in front of the real ones.
  target_include_directories(test_emulator BEFORE PRIVATE ${CMAKE_SOURCE_DIR}/tests/emulator/device
    ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(test_emulator PRIVATE -O2 -Wno-unknown-pragmas -Wno-missing-field-initializers)
  target_link_libraries(test_emulator PRIVATE ramp_runtime GTest::gtest_main)
  gtest_discover_tests(test_emulator TEST_PREFIX "emulator." DISCOVERY_TIMEOUT 60)
endfunction()

# ./ramp-dev bench: Google Benchmark over host code.
function(ramp_host_benchmarks)
  find_package(benchmark QUIET)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/bench/*_bench.cpp)
  if(benchmark_FOUND AND sources)
    add_executable(bench_host EXCLUDE_FROM_ALL ${sources})
    target_include_directories(bench_host PRIVATE ${CMAKE_SOURCE_DIR}/src)
    target_compile_definitions(bench_host PRIVATE RAMP_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_link_libraries(bench_host PRIVATE ramp_lab ramp_runtime benchmark::benchmark_main)
  endif()
endfunction()

# ./ramp-dev fuzz: one program a parser.
function(ramp_fuzzers)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp)
  add_custom_target(fuzzers)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} EXCLUDE_FROM_ALL ${source})
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${name} PRIVATE ramp_lab ramp_choice ramp_problem)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${name})
  endforeach()
endfunction()
