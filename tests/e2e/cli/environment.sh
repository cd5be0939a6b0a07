# docs/environment.md lists every variable that the product reads, and no other, and every key of CLEF_DEBUG.
. "$(dirname "$0")/../lib.sh"
cd "$CLEF_SOURCE" || exit 1

read_by_code=$(grep -rhoE '"(CLEF_[A-Z_]+|NO_COLOR|POCL_AFFINITY|POCL_CACHE_DIR|POCL_WORK_GROUP_SPECIALIZATION|TMPDIR|XDG_CACHE_HOME|XDG_STATE_HOME|HOME|LOCALAPPDATA|USERPROFILE|HF_[A-Z_]+|HUGGING[A-Z_]+|TRANSFORMERS_OFFLINE)"' runtime model graph text train export ranks tools --include=*.[ch] --exclude-dir=absent |
  tr -d '"' | sort -u)
listed=$(grep '^| `[A-Z]' docs/environment.md | cut -d '|' -f 2 | grep -oE '[A-Z][A-Z_]+' | sort -u)
same "docs/environment.md lists the variables that the code reads" "$read_by_code" "$listed"
own=$(grep '^| `CLEF_' docs/environment.md | grep -vc CLEF_RANK)
if [ "$own" -le 13 ]; then ok "13 variables of its own at most, without those of ranks"; else fail "expected 13 variables of its own at most without those of ranks, got $own"; fi

keys=$(sed -nE 's/^CLEF_DEBUG_KEY\((\w+), [01], "([^"]*)".*/\1 | \2/p' runtime/os/debug.def)
same "docs/environment.md lists the keys of CLEF_DEBUG" "$keys" \
  "$(sed -nE 's/^\| `([a-z_]+)` \| (.*) \| .*/\1 | \2/p' docs/environment.md | tr -d '`')"
run="$CLEF run -p x -n 1 -q"
refused "an unknown key" 1 "CLEF_DEBUG 'fuse=0' variant fused caps" env CLEF_DEBUG=fuse=0 $run
refused "a key without a value" 1 "CLEF_DEBUG 'fused' KEY=VALUE" env CLEF_DEBUG=,fused $run
refused "a value of a key" 1 "CLEF_DEBUG caps '-nosuch'" env CLEF_DEBUG=caps=-fp16:-nosuch $run
refused "a key as a variable of its own" 1 "caps '-nosuch'" env CLEF_CAPS=-fp16,-nosuch $run
refused "too long" 1 "CLEF_DEBUG 1024 1206" env "CLEF_DEBUG=cl_dir=$(printf '%01199d' 0)" $run
check "the last value counts, and an empty one is none" env CLEF_DEBUG=max_alloc=12Q,max_alloc=16M,,caps=-nosuch,caps= $run
finish
