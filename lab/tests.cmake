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

# A GPU in software (lab/gpu): interpreters of PTX and of AMD's instructions, and the OpenCL device that is made of
# them. They are built for the machine that they run on, and round as GPUs do.
if(CMAKE_CROSSCOMPILING)
  return()
endif()
include(CheckCCompilerFlag)
check_c_compiler_flag(-march=native CLEF_HAVE_NATIVE)
set(gpu "${PROJECT_SOURCE_DIR}/lab/gpu")
file(GLOB gpu_run CONFIGURE_DEPENDS "${gpu}/run/*.c" "${gpu}/ptx/*.c" "${gpu}/gcn/*.c")
file(GLOB gpu_device CONFIGURE_DEPENDS "${gpu}/device/*.c")
add_library(gpu_run OBJECT ${gpu_run})
add_library(gpu_device MODULE ${gpu_device} "${PROJECT_SOURCE_DIR}/runtime/os/sha256.c")
foreach(name gpu_run gpu_device)
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
target_link_libraries(gpu_device PRIVATE gpu_run Threads::Threads m)
if(CLEF_CLANG)
  target_compile_definitions(gpu_device PRIVATE GPU_CLANG="${CLEF_CLANG}")
endif()
file(WRITE "${PROJECT_BINARY_DIR}/tests/gpu.icd" "${PROJECT_BINARY_DIR}/tests/gpu_device.so\n")
foreach(name ptx gcn)
  add_executable(test_${name} "${PROJECT_SOURCE_DIR}/lab/tests/test_${name}.c")
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_compile_features(test_${name} PRIVATE c_std_17)
  target_include_directories(test_${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(test_${name} PRIVATE gpu_run clef_warnings PkgConfig::CMOCKA Threads::Threads m)
  clef_add_test(${name} COMMAND test_${name})
endforeach()
foreach(name ptx ptx_models gcn)
  clef_add_test(e2e_${name} COMMAND bash "${PROJECT_SOURCE_DIR}/lab/tests/${name}.sh")
endforeach()
