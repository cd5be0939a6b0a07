# shellcheck shell=bash
# Sourced by run: steps with time limits, whose results are kept as they come. It sets, and the caller uses:
#   here, out, work   the kit; where results go; where everything else goes
#   seconds           when all ends; CLEF_KIT_SECONDS, of 480 for which the phases are written
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seconds=${CLEF_KIT_SECONDS:-480}
KEPT=$((64 * 1024)) # bytes of a step's output
MOST=$((15 * 1024 * 1024)) # bytes of a file of results

# elapsed: whole seconds since the start.
elapsed() { echo $((SECONDS - began)); }

# phase SECOND: the following steps end before that second of 480; where few steps are wanted, each has all the time but the last 20 s.
phase() {
  until=$(($1 * seconds / 480))
  [ -z "${CLEF_KIT_ONLY:-}" ] || until=$((seconds - 20))
}

# wanted NAME: whether the step is one of CLEF_KIT_ONLY's patterns. Without any, all are.
wanted() {
  local pattern
  [ -n "${CLEF_KIT_ONLY:-}" ] || return 0
  for pattern in $CLEF_KIT_ONLY; do
    # shellcheck disable=SC2254
    case $1 in $pattern) return 0 ;; esac
  done
  return 1
}

# keep NAME CODE SECONDS FILE: adds a step's result to the files, and has them written to the disk.
keep() {
  {
    echo "== $1: exit $2 after $3 s"
    if [ "$(stat --format %s "$4")" -le "$KEPT" ]; then cat "$4"; else head -c $((KEPT / 2)) "$4" && echo && echo ... && tail -c $((KEPT / 2)) "$4"; fi
  } >"$4.kept"
  cat "$4.kept" >>"$out/log.txt"
  echo "$(elapsed),$1,$2,$3" >>"$out/steps.csv"
  sync "$out/log.txt" "$out/steps.csv" 2>/dev/null || :
  echo "$(elapsed) s: $1: exit $2"
}

# attend PID SECONDS: waits for a process. One that does not even die by a signal is left behind, with 137.
attend() {
  local end=$((SECONDS + $2))
  while kill -0 "$1" 2>/dev/null; do
    [ "$SECONDS" -le $end ] || return 137
    sleep 0.1
  done
  wait "$1"
}

# step NAME LIMIT COMMAND...: runs a command for at most so many seconds, or until its phase ends.
step() {
  local name=$1 limit=$(($2 * ${CLEF_KIT_PATIENCE:-1})) left=$((until - $(elapsed))) code=0 file=$work/steps/$1 at=$SECONDS
  shift 2
  wanted "$name" || return 0
  : >"$file"
  [ $limit -le $left ] || limit=$left
  if [ $limit -lt 1 ]; then
    echo "there was no time left" >"$file"
    keep "$name" - 0 "$file"
    return 0
  fi
  timeout -k 1 "$limit" "$@" >"$file" 2>&1 </dev/null &
  attend $! $((limit + 3)) || code=$?
  keep "$name" $code $((SECONDS - at)) "$file"
}

# beside N NAME LIMIT COMMAND...: a step that runs beside up to N - 1 others. `gather` waits for them.
beside() {
  local n=$1
  shift
  while [ "$(jobs -rp | wc -l)" -ge "$n" ]; do sleep 0.1; done
  step "$@" &
}
gather() { while [ "$(jobs -rp | wc -l)" -gt 0 ]; do sleep 0.1; done; }

# find_drivers: makes $work/vendors, a folder of .icd files for the OpenCL drivers of this machine, where packages and containers
# put them.
find_drivers() {
  local name path places
  mkdir -p "$work/vendors"
  cp /etc/OpenCL/vendors/*.icd "$work/vendors" 2>/dev/null
  places=$(ls -d /usr/local/nvidia /usr/local/cuda*/targets /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib/wsl /usr/lib/intel-opencl \
    /usr/local/lib /opt/rocm* /opt/intel /opt/amdgpu* /run/opengl-driver/lib /usr/lib/nvidia* ${CLEF_KIT_DRIVERS:-} 2>/dev/null)
  for name in libnvidia-opencl.so.1 libamdocl64.so libigdrcl.so libintelocl.so libRusticlOpenCL.so.1 libMesaOpenCL.so.1 libpocl.so.2; do
    ! grep -qs "$name\|${name%.[0-9]}" "$work/vendors"/*.icd || continue
    # shellcheck disable=SC2086
    path=$(find $places -maxdepth 5 -name "$name" 2>/dev/null | head -n 1)
    [ -n "$path" ] || continue
    echo "$path" >"$work/vendors/$name.icd"
    LD_LIBRARY_PATH=$LD_LIBRARY_PATH:${path%/*}
    echo "driver: $path"
  done
  export OCL_ICD_VENDORS=$work/vendors LD_LIBRARY_PATH
  head -v "$work"/vendors/*.icd 2>/dev/null || echo "expected an OpenCL driver, found none in $places"
}

# room MIB: a folder that has so much room, the fastest first.
room() {
  local folder
  for folder in ${CLEF_KIT_ROOM:-/dev/shm /tmp "$out"}; do
    [ "$(df -Pm "$folder" 2>/dev/null | awk 'NR == 2 { print $4 }')" -ge "$1" ] 2>/dev/null && { echo "$folder"; return; }
  done
  return 1
}

# pack NAME FILES...: an archive of what there is of them, in work, unless it would be too large.
pack() {
  local name=$1
  shift
  tar --create --gzip --ignore-failed-read --file "$work/$name" --directory "$work" "$@" 2>/dev/null
  [ "$(stat --format %s "$work/$name" 2>/dev/null || echo $MOST)" -lt $MOST ] && mv "$work/$name" "$out/$name"
}
