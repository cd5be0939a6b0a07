# The tests of lab/, and the programs that lab/offline needs. Included by tests/CMakeLists.txt.

# list_kernels writes the kernels that GPUs would be given, list_launches the launches of whole steps.
set(kernels "${PROJECT_SOURCE_DIR}/lab/kernels")
foreach(name list_kernels list_launches)
  add_executable(${name} ${kernels}/${name}.c ${kernels}/layers.c ${kernels}/programs.c ${kernels}/targets.c)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_compile_features(${name} PRIVATE c_std_17)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_include_directories(${name} SYSTEM PRIVATE "${OpenCL_INCLUDE_DIR}")
  target_link_libraries(${name} PRIVATE clef_static clef_warnings ${opencl})
endforeach()
add_executable(build_programs ${kernels}/build_programs.c)
set_target_properties(build_programs PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
target_include_directories(build_programs SYSTEM PRIVATE "${OpenCL_INCLUDE_DIR}")
target_link_libraries(build_programs PRIVATE clef_warnings ${opencl})
clef_add_test(list_kernels COMMAND bash -c "rm -rf kernels && mkdir kernels && ./list_kernels kernels")
clef_add_test(e2e_offline COMMAND bash "${PROJECT_SOURCE_DIR}/lab/tests/offline.sh")
clef_add_test(e2e_gpu_kit ENVIRONMENT "CLEF_PYTHON=${CLEF_PYTHON3}"
  COMMAND bash "${PROJECT_SOURCE_DIR}/lab/tests/kit.sh")
if(CLEF_PYTHON3)
  execute_process(COMMAND "${CLEF_PYTHON3}" -c "import tomllib" RESULT_VARIABLE no_tomllib OUTPUT_QUIET ERROR_QUIET)
  if(no_tomllib EQUAL 0)
    clef_add_test(speed_model COMMAND "${CLEF_PYTHON3}" "${PROJECT_SOURCE_DIR}/lab/tests/test_speed.py")
    clef_add_test(compare_report COMMAND "${CLEF_PYTHON3}" "${PROJECT_SOURCE_DIR}/lab/tests/test_compare.py")
    clef_add_test(list_launches COMMAND bash -c "rm -rf launches && mkdir launches && \
      '${CLEF_PYTHON3}' '${PROJECT_SOURCE_DIR}/lab/speed/cards.py' sm_80 gfx1100 dg2 > launches/wishes && \
      cd '${PROJECT_SOURCE_DIR}' && '${PROJECT_BINARY_DIR}/tests/list_launches' '${PROJECT_BINARY_DIR}/tests/launches' \
      < '${PROJECT_BINARY_DIR}/tests/launches/wishes' && test -s '${PROJECT_BINARY_DIR}/tests/launches/launches'")
  endif()
endif()

# Arm's products of bytes: no compiler here has a back end for them, so only their syntax is checked
# (lab/kernels/targets.def, NOT_COMPILED).
find_program(CLEF_CLANG NAMES clang-15 clang)
if(CLEF_CLANG)
  foreach(kernel probe/probe_gpu panel/panel_gpu_gemv panel/panel_gpu_gemm expert/expert_tiles)
    get_filename_component(name "${kernel}" NAME)
    clef_add_test(arm_dot_${name} COMMAND "${CLEF_CLANG}" -w -x cl -cl-std=CL1.2 -target spir64 -Xclang
      -finclude-default-header -fsyntax-only -include "${kernels}/arm_dot.h"
      -I "${PROJECT_SOURCE_DIR}/cl" -I "${PROJECT_SOURCE_DIR}/cl/panel" -I "${PROJECT_SOURCE_DIR}/cl/expert"
      -I "${PROJECT_SOURCE_DIR}/cl/instruction"
      -DWG=256 -DSHARING=1 -DNT=4 -DAT_ONCE=4 -DTILES=4 -DTOKENS=4 -DFOURS=1 -DW_TYPE=6 -DQUANTISE=1 -DINT_DOT=5
      -DSUBGROUPS=0 -DSUBGROUP_SIZE=0 -DBIAS_TYPE=-1 -DACT=0 -DRESIDUAL=0 -DOWN=0
      -DROWS=32 -DTRANSPOSED=1 -DALIGNED=0
      "${PROJECT_SOURCE_DIR}/cl/${kernel}.cl")
  endforeach()
endif()

# An NVIDIA GPU in software (lab/ptx): an interpreter of PTX, and the OpenCL device that is made of it. It is built
# for the machine that it runs on, and rounds as PTX does.
if(CMAKE_CROSSCOMPILING)
  return()
endif()
include(CheckCCompilerFlag)
check_c_compiler_flag(-march=native CLEF_HAVE_NATIVE)
set(ptx "${PROJECT_SOURCE_DIR}/lab/ptx")
file(GLOB ptx_run CONFIGURE_DEPENDS "${ptx}/run/*.c")
file(GLOB ptx_device CONFIGURE_DEPENDS "${ptx}/device/*.c")
add_library(ptx_run OBJECT ${ptx_run})
add_library(ptx_device MODULE ${ptx_device} "${PROJECT_SOURCE_DIR}/runtime/os/sha256.c")
foreach(name ptx_run ptx_device)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden PREFIX ""
    C_EXTENSIONS ON LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_compile_features(${name} PRIVATE c_std_17)
  target_compile_options(${name} PRIVATE -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math
    $<$<BOOL:${CLEF_HAVE_NATIVE}>:-march=native>)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_include_directories(${name} SYSTEM PRIVATE "${OpenCL_INCLUDE_DIR}")
  target_link_libraries(${name} PRIVATE clef_warnings)
endforeach()
find_package(Threads REQUIRED)
target_link_libraries(ptx_device PRIVATE ptx_run Threads::Threads m)
if(CLEF_CLANG)
  target_compile_definitions(ptx_device PRIVATE PTX_CLANG="${CLEF_CLANG}")
endif()
file(WRITE "${PROJECT_BINARY_DIR}/tests/ptx.icd" "${PROJECT_BINARY_DIR}/tests/ptx_device.so\n")
add_executable(test_ptx "${PROJECT_SOURCE_DIR}/lab/tests/test_ptx.c")
set_target_properties(test_ptx PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
target_compile_features(test_ptx PRIVATE c_std_17)
target_include_directories(test_ptx PRIVATE "${PROJECT_SOURCE_DIR}")
target_link_libraries(test_ptx PRIVATE ptx_run clef_warnings PkgConfig::CMOCKA Threads::Threads m)
clef_add_test(ptx COMMAND test_ptx)
foreach(name ptx ptx_models)
  clef_add_test(e2e_${name} COMMAND bash "${PROJECT_SOURCE_DIR}/lab/tests/${name}.sh")
endforeach()
