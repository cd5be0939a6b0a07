# docs/environment.md lists every variable that the product reads, and no other.
. "$(dirname "$0")/../lib.sh"
cd "$CLEF_SOURCE" || exit 1

read_by_code=$(grep -rhoE '"(CLEF_[A-Z_]+|NO_COLOR|POCL_AFFINITY|POCL_CACHE_DIR|TMPDIR|XDG_CACHE_HOME|XDG_STATE_HOME|HOME|LOCALAPPDATA)"' runtime model graph tools --include=*.[ch] |
  tr -d '"' | sort -u)
listed=$(grep '^| `' docs/environment.md | cut -d '|' -f 2 | grep -oE '[A-Z][A-Z_]+' | sort -u)
same "docs/environment.md lists the variables that the code reads" "$read_by_code" "$listed"
finish
