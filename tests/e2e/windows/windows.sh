# clef.exe under Wine beside the command of this machine: the same tokens and files, odd paths, kernels that are wrong, crash or
# hang, Ctrl-C, a start that is killed, two processes at once, a cache that is removed under them.
. "$(dirname "$0")/../lib.sh"
: "${CLEF_WINE:?}"
native=${CLEF_NATIVE:-$CLEF_SOURCE/build/clef}
[ -x "$native" ] || skip "no clef for this machine in $native: build it first"
export WINEPREFIX=${WINEPREFIX:-$CLEF_BUILD/wine} WINEDEBUG=-all
export CLEF_CACHE_DIR=$tmp/cache CLEF_TUNE=0
unset CLEF_PROOF CLEF_PROVER
# One server for all processes, unless there is one; it ends a minute after the last process. It is not killed here, because tests
# beside this one may use it.
server=$(dirname "$(readlink -f "$CLEF_WINE")")/wineserver
[ -x "$server" ] && "$server" -p60 2>/dev/null

win() { "$CLEF_WINE" "$CLEF" "$@"; }
demo=$CLEF_SOURCE/share/demo
greedy="-p ROMEO: --temp 0 --ignore-eos -n 12 -q --print-ids"

# ---- the same tokens and files

win ops >/dev/null 2>&1 # the first process of a new folder of Wine's makes it, and says so
want=$("$native" run "$demo" $greedy)
same "the bundled model: the same ids" "$want" "$(win run "$demo" $greedy 2>"$tmp/err")"
empty "with nothing to say" "$(cat "$tmp/err")"
same "a second start, from the cache" "$want" "$(win run "$demo" $greedy)"
same "a fused step" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,fused=1 win run "$demo" $greedy 2>&1)"
same "no carriage returns" 0 "$(win run "$demo" -p ROMEO: --temp 0 -n 40 -q | grep -c $'\r')"
same "texts in UTF-8" "$("$native" tokenize "$demo" "héllo 日本 ☃")" "$(win tokenize "$demo" "héllo 日本 ☃")"
same "and from stdin" "$(printf 'zwölf\r\n日本\n' | "$native" tokenize "$demo" -)" "$(printf 'zwölf\r\n日本\n' | win tokenize "$demo" -)"
# Without proofs: each child would start Wine, and the demo model has had them.
ids="--ids 5,9,17,3 --temp 0 --ignore-eos -n 6 -q --print-ids --no-proof"
for model in "$CLEF_SHARED"/oracle/models/*; do
  wanted=$(CLEF_DEBUG=$CLEF_DEBUG,fused=0 "$native" run "$model" $ids 2>/dev/null) || continue # an encoder generates nothing
  same "${model##*/}: the same ids" "$wanted" "$(CLEF_DEBUG=$CLEF_DEBUG,fused=0 win run "$model" $ids 2>&1)"
done
for type in q4_0 q8_0 q4_k_m; do
  "$native" quantize "$demo" "$tmp/native.gguf" $type -q && win quantize "$demo" "$tmp/wine.gguf" $type -q
  check "quantize $type: the same bytes" cmp "$tmp/native.gguf" "$tmp/wine.gguf"
done

# ---- paths

odd="$tmp/a folder/größe $(printf 'x%.0s' $(seq 120))/$(printf 'y%.0s' $(seq 120))/$(printf 'z%.0s' $(seq 60))"
mkdir -p "$odd" && cp -r "$demo" "$odd/model"
same "a path with spaces, umlauts and ${#odd} bytes" "$want" "$(win run "$odd/model" $greedy 2>&1)"
check "a file is written there" win quantize "$odd/model" "$odd/new.gguf" q8_0 -q
same "and read" "$("$native" run "$odd/new.gguf" $greedy)" "$(win run "$odd/new.gguf" $greedy 2>&1)"
same "a cache there" "$want" "$(CLEF_CACHE_DIR=$odd/cache win run "$demo" $greedy 2>"$tmp/err")"
check "is used" test -d "$odd/cache/proof"
same "a path of Windows" "$want" "$(win run "Z:$(printf '%s' "$demo" | tr / '\\')" $greedy 2>&1)"
refused "no such file" 1 "nowhere.gguf" win run "$tmp/nowhere.gguf" -p a
refused "a folder without a model" 1 "$tmp" win run "$tmp" -p a
refused "no loader" 1 "no OpenCL loader CLEF_OPENCL" env CLEF_OPENCL="$tmp/none.dll" "$CLEF_WINE" "$CLEF" run "$demo" -p a

# ---- kernels that are wrong, crash or hang

# A run with a broken kernel: `how`, and the words of the one line that it says.
try_broken() {
  local got
  rm -rf "$tmp/cache/proof"
  got=$(CLEF_DEBUG=$CLEF_DEBUG,break=$variant=$1 win run "$demo" $greedy 2>"$tmp/err")
  same "$1: the ids are the same" "$want" "$got"
  same "$1: one line says so" 1 "$(grep -c "${variant/./ } .*$2" "$tmp/err")"
}
variant=cached_attention.cpu_decode
grep -q " cached_attention cpu_decode " "$tmp"/cache/proof/*.txt || variant=$(awk '$3 != "-" { print $2 "." $3; exit }' "$tmp"/cache/proof/*.txt)
if CLEF_DEBUG=break=none=wrong win devices >/dev/null 2>&1; then
  try_broken wrong "set aside"
  try_broken crash "crashes the driver.*set aside"
  for how in hang spin; do CLEF_DEBUG=$CLEF_DEBUG,proof_seconds=4 try_broken $how "does not come back.*set aside"; done
else
  echo "broken kernels are not tried: this build has no such hook (CLEF_TESTS)"
fi

# ---- several devices

if [ "$(POCL_DEVICES="pthread basic" win devices | grep -c '^[0-9]*:[0-9]')" -ge 2 ]; then
  for split in 60,40 1,5; do
    got=$(CLEF_PROOF=0 POCL_DEVICES="pthread basic" win run "$demo" $greedy -d 0:0,0:1 --split $split 2>&1)
    same "two devices, $split: the same ids" "$want" "$got"
  done
else
  echo "several devices are not tried: Wine's OpenCL shows one alone"
fi

# ---- the library

if command -v x86_64-w64-mingw32-objdump >/dev/null; then
  x86_64-w64-mingw32-objdump -p "$(dirname "$CLEF")/libclef.dll" | awk '/Ordinal\/Name Pointer/ { on = 1; next } on && NF == 0 { exit } on { print $NF }' >"$tmp/exports"
  check "libclef.dll exports its functions" grep -qx clef_model_open "$tmp/exports"
  empty "and nothing else" "$(grep -v '^clef_[a-z]' "$tmp/exports")"
  empty "nor anything internal" "$(grep '^clef__' "$tmp/exports")"
fi

# ---- interruptions

"$CLEF_WINE" "$CLEF" bench "$demo" --batch 1,2,4,8 -p 64 -n 150 -r 100 -q >"$tmp/out" 2>&1 & # half a minute
sleep 3
kill -INT $! # Wine hands it on as Ctrl-C
wait $!
same "Ctrl-C ends with 130" 130 $?
rm -rf "$tmp/cache"
win run "$demo" $greedy >/dev/null 2>&1 &
sleep 0.7
{ kill -KILL $! && wait $!; } 2>/dev/null
same "killed in its first start: the next one" "$want" "$(win run "$demo" $greedy 2>"$tmp/err")"
rm -rf "$tmp/cache"
win run "$demo" $greedy >"$tmp/one" 2>"$tmp/err" &
win run "$demo" $greedy >"$tmp/two" 2>"$tmp/err2"
wait
same "two first starts at once" "$want $want" "$(cat "$tmp/one") $(cat "$tmp/two")"
win run "$demo" $greedy >"$tmp/one" 2>"$tmp/err" &
sleep 0.3
rm -rf "$tmp/cache"
wait
same "a cache that is removed under it" "$want" "$(cat "$tmp/one")"
finish
