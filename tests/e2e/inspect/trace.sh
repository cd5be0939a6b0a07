# --trace of run and bench: trace events by their schema, flows that join, device times that add up; tables by module and layer.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0
check "bench --profile --trace" "$CLEF" bench --profile --trace "$tmp/bench.json" -q
"$CLEF" bench --profile -q >"$tmp/profile"
for word in module variant attention feed-forward head "layer 0" "outside of layers" kernel; do
  if grep -q "^$word " "$tmp/profile"; then ok "the profile has $word"; else fail "the profile has $word"; fi
done
# Each row's last columns: share of the limit, idle time before its launches. Each table adds up to the step's idle time.
if grep -q '^limits of the device: [1-9][0-9.]* GB/s read, [1-9][0-9.]* Gop/s' "$tmp/profile"; then ok "the limits are named"; else fail "the limits are named"; fi
if awk '
  function near(a, b) { return a - b < 0.0005 * (rows + 1) && b - a < 0.0005 * (rows + 1) }
  function end() { if (rows && !near(sum, idle)) bad = 1; rows = sum = 0 }
  /between them$/ { end(); for (i = 1; i <= NF; i++) if ($i == "and") idle = $(i + 1); next }
  / % limit +idle ms$/ { end(); tables++; next }
  tables && NF > 7 { rows++; sum += $NF; limited += $(NF - 1) > 0; if ($(NF - 1) < 0 || $NF < 0) bad = 1 }
  END { end(); exit bad || tables != 10 || limited < 10 }' "$tmp/profile"; then ok "limit and idle time of each row"; else fail "limit and idle time of each row"; cat "$tmp/profile"; fi
check "run --trace" "$CLEF" run -p "Once upon a time" -n 5 --temp 0 -q --trace "$tmp/run.json"
same "a profiled run says the same" "$("$CLEF" run -p "Once upon a time" -n 9 --temp 0 -q)" \
  "$("$CLEF" run -p "Once upon a time" -n 9 --temp 0 -q --profile 2>"$tmp/run.profile")"
same "and reports two steps" "the prompt's last step: the last token's step: " "$(grep -o "^the .* step: " "$tmp/run.profile" | tr -d '\n')"
same "in ten tables" 10 "$(grep -c ' % limit  *idle ms$' "$tmp/run.profile")"
refused "--profile of beams" 2 "--profile --beams" "$CLEF" run -p a --beams 2 --profile
check "of a prompt in parts" "$CLEF" run -p "Once upon a time there was a little girl" -b 4 -n 5 --temp 0 -q --trace "$tmp/parts.json"
same "a traced run says the same" "$("$CLEF" run -p "Once upon a time" -n 9 --temp 0 -q)" \
  "$("$CLEF" run -p "Once upon a time" -n 9 --temp 0 -q --trace "$tmp/again.json")"
refused "bench --trace without --profile" 2 "--profile" "$CLEF" bench --trace "$tmp/x.json"
refused "a trace that cannot be written, before the work" 1 "$tmp/nowhere/t.json: cannot write" "$CLEF" run -p a -n 2 --trace "$tmp/nowhere/t.json"
refused "the same of bench" 1 "$tmp/nowhere/t.json: cannot write" "$CLEF" bench --profile --trace "$tmp/nowhere/t.json"
t5=$CLEF_SOURCE/tests/fixtures/tiny-t5
same "a traced search says the same" "$("$CLEF" run "$t5" -p "the sea" --beams 4 -n 6 --print-ids -q)" \
  "$("$CLEF" run "$t5" -p "the sea" --beams 4 -n 6 --print-ids -q --trace "$tmp/beams.json")"
"$CLEF" run -p a -n 2 -q --trace "$tmp/nowhere/x.json" >"$tmp/out" 2>"$tmp/err"
same "a trace that cannot be written" 1 $?
if grep -q "nowhere/x.json: cannot write" "$tmp/err"; then ok "is said"; else fail "is said: $(cat "$tmp/err")"; fi
command -v python3 >/dev/null || finish
cat >"$tmp/check.py" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
events = d["traceEvents"]
assert d["displayTimeUnit"] == "ms"
tracks = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
starts, ends, device, steps = {}, {}, [], []
for e in events:
    assert e["ph"] in "MXsf" and isinstance(e["name"], str) and isinstance(e["pid"], int) and isinstance(e["tid"], int), e
    assert e["ts"] >= (0 if e["ph"] == "M" else -1e3), e
    if e["ph"] == "X":
        assert e["dur"] >= 0 and (e["pid"], e["tid"]) in tracks, e
        if e["pid"] == 2: device.append(e)
        elif e["tid"] == 1: steps.append(e)
    if e["ph"] in "sf":
        (starts if e["ph"] == "s" else ends)[e["id"]] = e
        assert e["cat"] == "launch" and (e["ph"] == "s" or e["bp"] == "e"), e
assert starts.keys() == ends.keys() and len(starts) == len(device)
for k in starts:
    assert starts[k]["ts"] <= ends[k]["ts"], k
begins = {round(e["ts"], 3) for e in device}
assert all(round(e["ts"], 3) in begins for e in ends.values())
for a, b in zip(device, device[1:]):  # one queue in order
    assert a["ts"] + a["dur"] <= b["ts"] + 1, (a, b)
assert all({"node", "kernel", "GB/s", "Gop/s"} <= e["args"].keys() for e in device)
# each step's launches lie in its span, and no others
inside = [sum(s["ts"] - 1 <= e["ts"] and e["ts"] + e["dur"] <= s["ts"] + s["dur"] + 1 for e in device) for s in steps]
assert min(inside) > 0 and sum(inside) == len(device), inside
if len(sys.argv) > 2:
    assert len(steps) == int(sys.argv[2]), len(steps)
    ops = lambda s: sum(e["args"]["Gop/s"] * e["dur"] for e in device if s["ts"] - 1 <= e["ts"] < s["ts"] + s["dur"])
    assert steps[0]["name"] == "prompt's last step" and all(s["name"] != steps[0]["name"] for s in steps[1:])
    assert len(steps) < 2 or ops(steps[0]) > 2 * ops(steps[1]), "a prompt takes more than a token"
busy, wall = sum(e["dur"] for e in device), sum(e["dur"] for e in steps)
assert 0 < busy <= wall, (busy, wall)
print(f"{len(steps)} steps, {len(device)} launches, the device is busy for {100 * busy / wall:.0f} % of the steps' wall time")
END
for f in bench run parts beams; do
  steps=
  if [ $f = run ]; then steps=5; fi # the prompt, and what the first four of five tokens went into
  if python3 "$tmp/check.py" "$tmp/$f.json" $steps >"$tmp/log" 2>&1; then ok "$f's trace: $(cat "$tmp/log")"; else fail "$f's trace: $(tail -n 1 "$tmp/log")"; fi
done
finish
