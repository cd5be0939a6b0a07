# clef cache: what the folder holds, whether it is sound, taking it to another machine, emptying it, and its limit.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
greedy="-p ROMEO: --temp 0 --ignore-eos -n 4 -q --print-ids"
export CLEF_CACHE_DIR=$tmp/cache CLEF_TUNE=0 CLEF_DEBUG=$CLEF_DEBUG,background=0
unset CLEF_PROOF CLEF_PROVER CLEF_CACHE_MAX
dir=$CLEF_CACHE_DIR
# files KIND: how many of them the list shows
files() { "$CLEF" cache | awk -v kind="$1" '$1 == kind { n = $2 } END { print n + 0 }'; }

same "no folder is an empty one" "Nothing is set aside." "$("$CLEF" cache | tail -n 1)"
want=$("$CLEF" run "$demo" $greedy)
programs=$(find "$dir/programs" -name '*.bin' | wc -l)
same "list counts the programs" "$programs" $(($(files programs) + $(files fused)))
same "and the proofs" 1 "$(files proofs)"
same "verify finds them sound" "Every file is sound." "$("$CLEF" cache verify | tail -n 1)"

# To another machine and back.
file=$tmp/moved
refused "an export of nothing" 1 "compiled kernels none" "$CLEF" cache --dir "$tmp/nowhere" export "$file"
check "export" "$CLEF" cache export "$file"
same "the key is a name" 33 "$("$CLEF" cache key | grep -x '[0-9a-f]*' | wc -c)"
mv "$dir" "$tmp/first"
check "import" "$CLEF" cache import "$file"
same "brings every program, whole" "$(cd "$tmp/first/programs" && sha256sum *)" "$(cd "$dir/programs" && sha256sum *)"
same "and every proof" "$(sort "$tmp/first"/proof/*.txt)" "$(sort "$dir"/proof/*.txt)"
same "a run then writes the same" "$want" "$("$CLEF" run "$demo" $greedy)"
same "and builds nothing" 1 "$("$CLEF" run "$demo" ${greedy/-q/} 2>&1 | grep -c "kernels 0 built, [1-9]")"
same "a second import has nothing new" 1 "$("$CLEF" cache import "$file" | grep -c "new are 0 programs, 0 proofs and 0 measurements")"
print=$(grep -m 1 " right " "$dir"/proof/*.txt | cut -d ' ' -f 1)
sed -i "s/^\($print .*\) right .*/\1 crashed 0 0 1700000000/" "$dir"/proof/*.txt
check "an import over other facts" "$CLEF" cache import "$file"
same "keeps those of this machine" 1 "$(grep -c "^$print .* crashed" "$dir"/proof/*.txt)"
rm -r "$dir"

# Files that are refused leave nothing behind. sealed: with the right checksum.
sealed() { printf "$(head -c -32 "$1" | sha256sum | cut -c 1-64 | sed 's/../\\x&/g')" | dd of="$1" bs=1 seek=$(($(wc -c <"$1") - 32)) conv=notrunc 2>/dev/null; }
rejects() { # NAME WORDS: refused, as $tmp/bad is
  refused "import of $1" 1 "$2" "$CLEF" cache import "$tmp/bad"
  same "which leaves nothing" no "$([ -e "$dir" ] && echo yes || echo no)"
}
cp "$file" "$tmp/bad" && printf x | dd of="$tmp/bad" bs=1 seek=5000 conv=notrunc 2>/dev/null
rejects "a damaged file" "checksum damaged"
head -c 100000 "$file" >"$tmp/bad"
rejects "a part of a file" "checksum damaged"
: >"$tmp/bad"
rejects "an empty file" "another"
sed '1s/1$/2/' "$file" >"$tmp/bad"
rejects "a later form" "form 1 '2'"
for line in driver processor kernels caps; do
  LC_ALL=C sed "1,12s/^$line .*/$line other/" "$file" >"$tmp/bad" && sealed "$tmp/bad"
  rejects "another $line" "$line expected 'other'"
done
LC_ALL=C sed '2s/.*/clef/' "$file" >"$tmp/bad" && sealed "$tmp/bad"
rejects "no version" "VERSION"
LC_ALL=C sed '1,20s/^proof .*/..\/..\/proof 3/' "$file" >"$tmp/bad" && sealed "$tmp/bad"
rejects "a part with a path" "sizes"
for size in -1 99999999 99999999999999999999; do
  LC_ALL=C sed "1,40s/^program .*/program $size/" "$file" >"$tmp/bad" && sealed "$tmp/bad"
  rejects "a program of $size bytes" "expected"
done
at=$(LC_ALL=C grep -abo -m 1 clefprog "$file" | head -n 1 | cut -d : -f 1)
cp "$file" "$tmp/bad" && printf x | dd of="$tmp/bad" bs=1 seek=$((at + 200)) conv=notrunc 2>/dev/null && sealed "$tmp/bad"
rejects "a damaged program" "whole programs"
refused "a masked device" 1 "caps -x86_vnni" env CLEF_DEBUG="$CLEF_DEBUG,caps=-x86_vnni" "$CLEF" cache import "$file"
refused "a file that is not there" 1 "$tmp/none" "$CLEF" cache import "$tmp/none"
refused "a folder for the file" 1 "$tmp" "$CLEF" cache --dir "$tmp/first" export "$tmp"
refused "import of nothing" 2 "import file" "$CLEF" cache import
mv "$tmp/first" "$dir"

touch -d "1 day ago" "$dir"/programs/*.bin
same "another run" "$want" "$("$CLEF" run "$demo" $greedy)"
one=$(find "$dir/programs" -name '*.bin' -mmin -60 | head -n 1) # which a run uses
printf x | dd of="$one" bs=1 seek=200 conv=notrunc 2>/dev/null
if "$CLEF" cache verify >"$tmp/out" 2>&1; then fail "verify finds a damaged file"; else ok "verify finds a damaged file"; fi
same "and names it" 1 "$(grep -c "^damaged: $one" "$tmp/out")"
same "which stops nothing" "$want" "$("$CLEF" run "$demo" $greedy)"
same "and is built anew" "Every file is sound." "$("$CLEF" cache verify | tail -n 1)"

# What probes found is kept, so they are neither built nor run again, unless their line is damaged.
if grep -q '^got ' "$dir"/probe/*.txt; then
  mv "$dir/programs" "$tmp/programs"
  "$CLEF" devices >"$tmp/devices"
  same "probes do not run again" 0 "$(files programs)"
  sed -i '/^got /s/ [0-9a-f]*$/ 0x/' "$dir"/probe/*.txt
  same "a damaged result is not used" "$(cat "$tmp/devices")" "$("$CLEF" devices)"
  if [ "$(files programs)" -gt 0 ]; then ok "its probe runs again"; else fail "its probe runs again"; fi
  rm -r "$dir/programs" && mv "$tmp/programs" "$dir"
fi

# What is set aside, and the way out.
line=$(grep -m 1 " right " "$dir"/proof/*.txt | awk '{ print $1, $2, $3 }')
echo "00000000000000ff rope cpu crashed 0 0 1700000000" >>"$(echo "$dir"/proof/*.txt)"
echo "00000000000000fe add - hung 0 2 $(date +%s)" >>"$(echo "$dir"/proof/*.txt)"
"$CLEF" cache >"$tmp/out"
same "a crash is shown" 1 "$(grep -c "rope cpu on .*crashes the driver" "$tmp/out")"
same "so is a suspicion" 1 "$(grep -c "add on .*does not come back (on 2 of 3 starts; the next one tries again)" "$tmp/out")"
same "clear aside forgets both" "2 kernels will be tried again." "$("$CLEF" cache clear aside)"
same "nothing is set aside then" "Nothing is set aside." "$("$CLEF" cache | tail -n 1)"
same "and other proofs stay" 1 "$(grep -c "^$line right" "$dir"/proof/*.txt)"

check "clear of a kind" "$CLEF" cache clear programs
same "leaves the others" "0 1" "$(files programs) $(files proofs)"
refused "clear of no kind" 2 "nonsense expected" "$CLEF" cache clear nonsense
refused "no such action" 2 "nonsense expected" "$CLEF" cache nonsense
check "clear" "$CLEF" cache clear
same "leaves nothing" 0 "$(find "$dir" -type f | wc -l)"

# The limit: what was used longest ago goes first, and what somebody writes stays.
refused "a limit that is not a size" 1 "CLEF_CACHE_MAX 1X" env CLEF_CACHE_MAX=1X "$CLEF" run "$demo" $greedy
refused "nor is a negative one" 1 "CLEF_CACHE_MAX -1" env CLEF_CACHE_MAX=-1 "$CLEF" run "$demo" $greedy
mkdir -p "$dir/programs"
for name in old.bin new.bin old.bin.1-1.tmp new.bin.1-1.tmp; do head -c 6000000 /dev/zero >"$dir/programs/$name"; done
touch -d "3 days ago" "$dir/programs/old.bin" "$dir/programs/old.bin.1-1.tmp"
same "a run within 15 MB" "$want" "$(CLEF_CACHE_MAX=15M "$CLEF" run "$demo" $greedy)"
same "removes what is oldest" "new.bin new.bin.1-1.tmp" "$(cd "$dir/programs" && echo old* new* | sed 's/old\* //')"
find "$dir/programs" -name '*.bin' -exec touch -d "5 days ago" {} +
same "a run that loads programs" "$want" "$("$CLEF" run "$demo" $greedy)"
if [ -n "$(find "$dir/programs" -name '*.bin' -mtime -1)" ]; then ok "marks them as used"; else fail "marks them as used"; fi
same "and no other" "$dir/programs/new.bin" "$(find "$dir/programs" -name new.bin -mtime +1)"
finish
