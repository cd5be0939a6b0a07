# Builds that open the OpenCL loader when they first need it (CLEF_DLOPEN_OPENCL): without one the command starts and says what is
# missing; CLBlast is opened in the same way. The build is of the core alone (CLEF_CORE_ONLY), which has to build and run, too.
. "$(dirname "$0")/../lib.sh"
if nm -D --undefined-only "$CLEF_BUILD/libclef.so" | grep -q " clGetPlatformIDs"; then # this build links the loader
  if [ -n "${CLEF_SANITIZE:-}" ]; then skip "this build links the OpenCL loader, and another one with sanitizers would take long"; fi
  generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$CLEF_BUILD/CMakeCache.txt")
  check "a build that opens the loader" eval 'cmake -S "$CLEF_SOURCE" -B "$CLEF_BUILD/dlopen" -G "$generator" \
    -DCMAKE_BUILD_TYPE=Debug -DCLEF_DLOPEN_OPENCL=ON -DCLEF_CORE_ONLY=ON "-DCLEF_WERROR=${CLEF_WERROR:-OFF}" && cmake --build "$CLEF_BUILD/dlopen" --target clef_command'
  CLEF_BUILD=$CLEF_BUILD/dlopen
  CLEF=$CLEF_BUILD/clef
  if [ ! -x "$CLEF" ]; then finish; fi

  # ---- no file needs what another one of its unit includes (CLEF_UNITS)
  check "each file compiles alone" eval 'cmake -S "$CLEF_SOURCE" -B "$CLEF_BUILD/alone" -G "$generator" \
    -DCMAKE_BUILD_TYPE=Debug -DCLEF_UNITS=OFF "-DCLEF_WERROR=${CLEF_WERROR:-OFF}" &&
    cmake --build "$CLEF_BUILD/alone" --target clef_objects && rm -rf "$CLEF_BUILD/alone"'

  # ---- the core alone
  empty "no library of a guest" "$(ldd "$CLEF" | grep -iE 'mpi|gvc|cairo|protobuf|microhttpd|png|jpeg|webp|sndfile|mpg123')"
  check "an op's cases" "$CLEF" selftest --op softmax
  empty "no command of a guest" "$("$CLEF" help | grep -E '^  (chat|serve|template|grammar|train) ')"
  refused "a constraint" 1 "constraints built without it CLEF_TEXT=ON" "$CLEF" run -p a -n 1 --json -q
  refused "ONNX" 1 "ONNX built without it CLEF_EXPORT=ON" "$CLEF" graph --format onnx -o "$tmp/g.onnx"
fi
demo=$CLEF_SOURCE/share/demo
run() { "$CLEF" run -m "$demo" -p ROMEO: -n 5 --temp 0 --no-tune -q "$@"; }

check "the libraries of the command have no OpenCL loader among them" test -z "$(ldd "$CLEF" | grep -i opencl)"
check "ops without a loader" env CLEF_OPENCL="$tmp/none.so" "$CLEF" ops
check "info without a loader" env CLEF_OPENCL="$tmp/none.so" "$CLEF" info -m "$demo"
refused "no loader" 1 "no OpenCL loader $tmp/none.so ocl-icd-libopencl1 pocl-opencl-icd CLEF_OPENCL" \
  env CLEF_OPENCL="$tmp/none.so" "$CLEF" run -m "$demo" -p a
echo text >"$tmp/text.so"
refused "a loader that is not a library" 1 "no OpenCL loader $tmp/text.so" env CLEF_OPENCL="$tmp/text.so" "$CLEF" run -m "$demo" -p a
loader=$(ldconfig -p | sed -n 's/.*libOpenCL\.so\.1 .* => //p' | head -1)
[ -n "$loader" ] || { fail "expected libOpenCL.so.1 on this machine, found none"; finish; }
same "the loader named by CLEF_OPENCL" "$(run)" "$(CLEF_OPENCL=$loader run)"

if grep -qa CLBlastSgemm "$CLEF_BUILD/libclef.so" && ldconfig -p | grep -q "libclblast\.so\.1 "; then
  same "CLBlast, opened at run time" "$(run --gemm own)" "$(run --gemm clblast)"
  refused "CLBlast beside another loader" 1 "gemm clblast: libclblast.so.1 is not used while CLEF_OPENCL is set" env CLEF_OPENCL="$loader" \
    "$CLEF" run -m "$demo" -p a --gemm clblast -q
fi
finish
