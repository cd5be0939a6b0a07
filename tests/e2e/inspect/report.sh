#!/usr/bin/env bash
# clef bench --report: the file has what an issue needs and nothing private; lab/offline --compare reads it.
. "$(dirname "$0")/../lib.sh"
command -v python3 >/dev/null || skip "python3 is needed to read the report"
# Names that must not be in a report.
export HOME=$tmp/home-of-alice USER=alice-liddell LOGNAME=alice-liddell HOSTNAME=host-of-alice CLEF_CACHE_DIR=$tmp/cache-of-alice
mkdir -p "$HOME" "$tmp/models-of-alice"
cp -r "$CLEF_SOURCE/share/demo" "$tmp/models-of-alice/given-model"
chmod -R u+w "$tmp/models-of-alice"
report=$tmp/report.json
sizes="-p 16 -n 4 -r 2"

check "a report of two models" "$CLEF" bench "$tmp/models-of-alice/given-model" $sizes --report "$report" -q
check "is JSON with sorted keys" python3 - "$report" <<'PY'
import json, sys
def sort_check(x):
    if isinstance(x, dict):
        assert list(x) == sorted(x), list(x)
    for v in x.values() if isinstance(x, dict) else x if isinstance(x, list) else ():
        sort_check(v)
r = json.load(open(sys.argv[1]))
sort_check(r)
assert r["format"] == "clef report 1" and r["failure"] == "", r["failure"]
assert [m["name"] for m in r["models"]] == ["demo", "given-model"], [m["name"] for m in r["models"]]
assert r["device"]["name"] and r["device"]["driver"] and r["device"]["capabilities"]["max_alloc_bytes"] > 0
assert r["limits"]["read_gb_s"] > 0
assert r["variants"] and r["set_aside"] == []
for m in r["models"]:
    assert {x["what"] for x in m["rates"]} == {"prefill", "decode"}
    assert all(x["best_tok_s"] > 0 and x["predicted_tok_s"] > 0 and x["rounds"] == 2 for x in m["rates"])
    steps = {x["step"] for x in m["launches"]}
    assert steps == {"prefill 16 after 0", "decode 1 after 0"}, steps
    assert sum(x["us"] * x["count"] for x in m["launches"]) > 0
    assert (m["n_layers"], m["d_model"], m["n_vocab"], m["dtype"]) == (6, 192, 1024, "f16"), m
PY
for private in "$HOME" "$tmp" alice "$CLEF_SOURCE" "$CLEF_BUILD"; do
  if grep -qiF -e "$private" "$report"; then fail "private: '$private' is in the report"; else ok "nothing of '${private##*/}'"; fi
done
# Words that a report has on any machine, or that the driver says: a user may be called demo, and a variable may name the device.
{ "$CLEF" devices --json; "$CLEF" ops; echo demo; grep -o '"[a-z_0-9]*":' "$report"; } >"$tmp/public"
for private in "$(uname -n)" "$(id -un)" "$(id -gn)"; do
  if grep -qiwF -e "$private" "$tmp/public"; then continue; fi
  if grep -qiwF -e "$private" "$report"; then fail "private: '$private' is in the report"; else ok "no name of host, user or group"; fi
done
# A driver's names of a device may have slashes, but no path.
check "no path" python3 - "$report" <<'PY'
import json, re, sys
def texts(x):
    return [x] if isinstance(x, str) else [t for v in (x.values() if isinstance(x, dict) else x if isinstance(x, list) else ()) for t in texts(v)]
r = json.load(open(sys.argv[1]))
of_driver = [r["device"].pop(k) for k in ("driver", "name", "platform", "vendor", "version")]
paths = [t for t in texts(r) if re.search(r"[/\\]", t)] + [t for t in of_driver if re.search(r"(^|\s)[~.]*[/\\][^/\\\s]+[/\\]|\b[A-Za-z]:[/\\]", t)]
assert not paths, paths
PY
while IFS= read -r value; do
  if grep -qF -e "$value" "$tmp/public"; then continue; fi
  if grep -qF -e "$value" "$report"; then fail "the value of a variable is in the report: $value"; else ok "no variable"; fi
done < <(env | sed -n 's/^[A-Z_]*=\(........*\)$/\1/p')

# A model in the user's own folder: its name would be the user's.
cp -r "$tmp/models-of-alice/given-model/." "$HOME"
check "a model in the home folder" "$CLEF" bench "$HOME/" $sizes --report "$tmp/home.json" -q
same "which is called a model" 1 "$(grep -c '"name": "a model"' "$tmp/home.json")"
if grep -qi alice "$tmp/home.json"; then fail "the home folder's name is in the report"; else ok "not by the folder's name"; fi

check "the bundled model alone" "$CLEF" bench $sizes --report "$tmp/alone.json" -q
same "which is one" 1 "$(grep -c '"arch":' "$tmp/alone.json")"

# What the device's kernels failed at is reported. A report that cannot be finished says so, and so does the exit code.
CLEF_CACHE_DIR=$tmp/other-cache CLEF_DEBUG=$CLEF_DEBUG,break=cached_attention.cpu_decode=wrong "$CLEF" bench $sizes --report "$tmp/aside.json" -q 2>"$tmp/err"
if grep -q 'set aside' "$tmp/err"; then # a device on which that variant serves
  same "a kernel that is set aside" 1 "$(grep -c '"op": "cached_attention", "variant": "cpu_decode", "why": "gives wrong numbers"' "$tmp/aside.json")"
fi
layer=$CLEF_BUILD/tests/quirk_layer.so
code=0
CLEF_QUIRK=memory=700000000 OPENCL_LAYERS=$layer "$CLEF" bench $sizes --report "$tmp/half.json" -q 2>"$tmp/err" || code=$?
same "a device with memory for the models and little more" "0 1" "$code $(grep -c '"failure": ""' "$tmp/half.json")"
code=0
CLEF_QUIRK=alloc_silent=1000000 OPENCL_LAYERS=$layer "$CLEF" bench $sizes --report "$tmp/half.json" -q 2>"$tmp/err" || code=$?
same "a driver that fails: exit code" 1 "$code"
same "the report says so" 1 "$(grep -c '"failure": "stopped before the end"' "$tmp/half.json")"

refused "a folder that is not there" 1 "no-folder" "$CLEF" bench --report "$tmp/no-folder/report.json"
refused "other output" 2 "report json" "$CLEF" bench --report "$report" --json
refused "two devices" 2 "report several" "$CLEF" bench --report "$report" -d 0:0,0:0

# ---- lab/offline --compare
compare() { "$CLEF_SOURCE/lab/offline" --compare "$@"; }
compare "$report" --table "$tmp/none.csv" >"$tmp/out" || fail "compare"
if grep -q 'no table of predictions' "$tmp/out"; then ok "no table: it is said"; else fail "no table: $(head -n 2 "$tmp/out")"; fi
same "both models, two rates each" 4 "$(grep -c ' tok/s$' "$tmp/out")"
same "every launch of the report" "$(grep -c '"kernel":' "$report")" "$(grep -cE '^  (prefill|decode) [0-9]+ after' "$tmp/out")"
measured=$(python3 -c 'import json, sys; r = json.load(open(sys.argv[1]))["models"][0]["rates"][1]; print("%.2f %.2f" % (r["best_tok_s"], r["predicted_tok_s"]))' "$report")
same "the figures of the report" "$measured" "$(awk '$1 == "decode" && $2 == 4 { print $3, $4; exit }' "$tmp/out")"

# Rows for other steps, nodes, groups or models are none of this launch's. Those without a kernel are whole steps.
cat >"$tmp/table.csv" <<'CSV'
card,step,node,kernel,constants,share,rule,us,groups
rx1,demo/decode-0,,,,,,2000,
rx1,demo/prefill-16,,,,,,8000,
rx1,demo/decode-0,token,sample_whole,aacf20dd,27.1,latency,2.5,1x1x1
rx1,demo/prefill-16,token,sample_whole,aacf20dd,27.1,latency,3.5,1x1x1
rx1,demo/prefill-512,token,sample_whole,aacf20dd,27.1,latency,4.5,1x1x1
rx1,demo/decode-0,token,sample_whole,aacf20dd,27.1,latency,5.5,2x1x1
rx1,demo/decode-0,logits,sample_whole,aacf20dd,27.1,latency,6.5,1x1x1
rx1,other/decode-0,token,sample_whole,aacf20dd,27.1,latency,7.5,1x1x1
rx2,demo/decode-0,token,sample_whole,aacf20dd,27.1,latency,8.5,1x1x1
CSV
compare "$report" --table "$tmp/table.csv" >"$tmp/out" || fail "compare"
if grep -q 'has no prediction for this device' "$tmp/out"; then ok "another card: it is said"; else fail "another card: $(head -n 2 "$tmp/out")"; fi
# predicted: the times beside those of sample_whole
predicted() { awk '$5 == "sample_whole" && $NF == "latency" { printf "%s %s;", $1, $(NF - 3) }' "$tmp/out"; }
compare "$report" --table "$tmp/table.csv" --as rx1 >"$tmp/out" || fail "compare"
same "predictions beside what was measured" "prefill 3.50;decode 2.50;" "$(predicted)"
same "of whole steps" "2000.00 500.00" "$(awk '/^demo/ { on = 1 } /^given/ { on = 0 } on && / tok\/s$/ { printf "%s%s", sep, $7; sep = " " }' "$tmp/out")"
same "how many there are" 1 "$(grep -c '^  2 of [0-9]* kinds of launches have a prediction' "$tmp/out")"
same "a model that the table does not have" 1 "$(grep -c 'no such model for rx1' "$tmp/out")"
compare "$report" --table "$tmp/table.csv" --as rx1 --model demo >"$tmp/out" || fail "compare"
same "--model, for both" "prefill 3.50;decode 2.50;prefill 3.50;decode 2.50;" "$(predicted)"
python3 - "$report" "$tmp/table.csv" <<'PY'
import csv, json, sys
name = json.load(open(sys.argv[1]))["device"]["name"].split()[0]
rows = list(csv.reader(open(sys.argv[2])))
csv.writer(open(sys.argv[2], "w")).writerows([[name if x == "rx2" else x for x in row] for row in rows])
PY
compare "$report" --table "$tmp/table.csv" >"$tmp/out" || fail "compare"
same "a card that the device's name contains" "decode 8.50;" "$(predicted)"

# wrong CODE WORD... : refused with a line that has the words
wrong() {
  local name=$1 word code=0
  shift
  compare "${@:2}" >"$tmp/out" 2>"$tmp/err" || code=$?
  same "$name: refused" "1 1" "$code $(wc -l <"$tmp/err")"
  for word in $1; do grep -qF -e "$word" "$tmp/err" || fail "$name: expected '$word' in: $(cat "$tmp/err")"; done
}
echo '{"format": "another"}' >"$tmp/other.json"
echo '{"format": "clef report 1"}' >"$tmp/empty.json"
echo 'not JSON' >"$tmp/text"
printf 'a,b\n1,2\n' >"$tmp/columns.csv"
wrong "no file" "none.json" "$tmp/none.json"
wrong "no report" "expected REPORT"
wrong "an unknown option" "--tabel --table --as --model" --tabel "$tmp/table.csv"
wrong "no JSON" "JSON" "$tmp/text"
wrong "another format" "another" "$tmp/other.json"
wrong "no members" "missing" "$tmp/empty.json"
wrong "a table without its columns" "card step kernel us" "$report" --table "$tmp/columns.csv"
wrong "a card that the table does not have" "gfx1 expected" "$report" --table "$tmp/table.csv" --as gfx1
wrong "a model that the table does not have" "--model expected demo" "$report" --table "$tmp/table.csv" --as rx1 --model none
finish
