# Installs Quire to a fresh prefix, builds the example against it and runs it: what a user of the package
# does. Given: QUIRE_BINARY_DIR, QUIRE_SOURCE_DIR, GENERATOR, CXX_COMPILER, TINY_MODEL.
set(work ${QUIRE_BINARY_DIR}/examples/installed)
set(prefix ${work}/prefix)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "failed (${status}): ${command}\n${output}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${QUIRE_BINARY_DIR} --prefix ${prefix})
run(${CMAKE_COMMAND} -S ${QUIRE_SOURCE_DIR}/examples/generate -B ${work}/build -G ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DCMAKE_PREFIX_PATH=${prefix}
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/quire_example_generate ${TINY_MODEL} "Hello there")
run(${prefix}/bin/quire --version)
