# shellcheck shell=bash
# Sourced by the scripts of tools/. All messages go to stderr.

say() { printf '%s\n' "$*" >&2; }

# logged LOG WHAT COMMAND...: runs the command with its output appended to LOG, and shows its progress: one line that is rewritten
# on a terminal, else a line every ten seconds. When the command fails, shows the end of the log and fails too.
logged() {
  local log=$1 what=$2 shown=$SECONDS line at code=0
  shift 2
  { if "$@" </dev/null 2>&1; then echo "exit 0"; else echo "exit $?"; fi; } | {
    code=1
    while IFS= read -r line; do
      at=
      case $line in
        "exit "*) code=${line#exit } ;;
        "["*/*"]"*) at=${line%%]*}] ;;
        "Get:"* | "Unpacking "* | "Setting up "*) at=${line:0:60} ;;
      esac
      if [ -n "$at" ] && [ -t 2 ]; then
        printf '\r\033[K%s %s' "$what" "$at" >&2
      elif [ -n "$at" ] && [ $((SECONDS - shown)) -ge 10 ]; then
        say "$what: $at"
        shown=$SECONDS
      fi
      printf '%s\n' "$line" >>"$log"
    done
    if [ -t 2 ]; then printf '\r\033[K' >&2; fi
    exit "$code"
  } || code=$?
  [ "$code" -eq 0 ] && return 0
  tail -n 40 "$log" >&2
  say "$what failed; its whole output is in $log"
  return 1
}

# build TARGET [CMAKE ARGUMENTS]: configures build/ if it is not configured or arguments are given, then builds. Runs in the root.
# CLEF_WERROR=ON makes a warning an error.
build() {
  local target=$1 log=build/build.log
  shift
  mkdir -p build
  : >$log
  if [ -f build/CMakeCache.txt ] && ! [ -f build/build.ninja ]; then
    rm -f build/CMakeCache.txt # left by a first try that failed, or by another generator, which CMake then names
  fi
  if ! [ -f build/build.ninja ] || [ $# -gt 0 ]; then
    logged $log configuring cmake --preset release "-DCLEF_WERROR=${CLEF_WERROR:-OFF}" "$@" || return 1
  fi
  logged $log building cmake --build build --target "$target"
}
