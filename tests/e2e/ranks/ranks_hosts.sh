# clef on two and four hosts, which are network namespaces with cables of 1 and of 10 Gbit/s between them: the texts of one process, the bytes that
# `clef plan --ranks` predicts, and a cable that is cut. Four hosts share this machine's cores, so their times mean nothing.
. "$(dirname "$0")/../lib.sh"
command -v mpirun >/dev/null || skip "no mpirun here (Debian: openmpi-bin)"
mpirun --version 2>/dev/null | grep -q "Open MPI" || skip "needs Open MPI, whose agent starts processes in a namespace"
[ -f "$CLEF_BUILD/libclef_mpi.so" ] || skip "built without MPI"
[ "$(id -u)" -eq 0 ] || skip "needs root, which makes network namespaces"
ip netns add clef-try-$$ 2>/dev/null || skip "no network namespaces here (Debian: iproute2)"
ip netns delete clef-try-$$
[ -c /dev/net/tun ] || skip "no /dev/net/tun here, so no cable with a latency"
export CLEF_MPI=$CLEF_BUILD/libclef_mpi.so CLEF_TUNE=0 CLEF_RANK_TIMEOUT=60 CLEF_RANK_START=1800
script=$CLEF_SOURCE/examples/mpi-two-hosts.sh
models=("$CLEF_SOURCE/share/demo")
[ -f "${CLEF_SHARED:-}/data/stories260K/stories260K.gguf" ] && models+=("$CLEF_SHARED/data/stories260K/stories260K.gguf")
printf '%s\n' "read_gb_s = 10" "gflop_s = 50" "launch_us = 1" "round_trip_us = 5" "memory_gb = 8" >"$tmp/device.txt"

# hosts N NETWORK ARGUMENTS...: clef on N hosts with one core each
hosts() {
  local n=$1 network=$2
  shift 2
  # shellcheck disable=SC2086
  timeout 1800 "$script" -q -m "$n" -c 1 $network "$CLEF" "$@" 2>"$tmp/err" </dev/null
}
slow="-r 1gbit -l 250" fast="-r 10gbit -l 50"

# bytes MODEL N NETWORK LINK LAYOUT: what a rank sends for a token, counted and predicted, within 1 %. Sums cross by the way that is predicted;
# which one is measured to be faster depends on what else the machine does.
bytes() {
  local model=$1 n=$2 network=$3 link=$4 layout=$5 counted predicted
  # shellcheck disable=SC2086
  counted=$(CLEF_DEBUG=${CLEF_DEBUG:-},rank_sum=messages hosts "$n" "$network" bench "$model" -p 0 -n 24 -r 1 -q --json $layout | sed -n 's/.*"sent_bytes": *\([0-9.]*\).*/\1/p')
  # shellcheck disable=SC2086
  predicted=$("$CLEF" plan "$model" --ranks "$n" --nodes "$n" --network "$link" --device-profile "$tmp/device.txt" --format json $layout 2>"$tmp/err" |
    sed -n 's/.*"decode": {[^}]*"sent_bytes": *\([0-9.]*\).*/\1/p')
  if awk -v a="$counted" -v b="$predicted" 'BEGIN { exit !(a > 0 && a >= 0.99 * b && a <= 1.01 * b) }'; then
    ok "$(basename "$model") on $n hosts, $layout: $counted bytes a token, $predicted predicted"
  else
    fail "$(basename "$model") on $n hosts, $layout: '$counted' bytes a token, '$predicted' predicted"
    tail -n 5 "$tmp/err"
  fi
}

head -c 300 "$CLEF_SOURCE/LICENSE" >"$tmp/prompt"
long="-f $tmp/prompt --temp 0 --ignore-eos -n 16 -q --print-ids"
# shellcheck disable=SC2086
same "a longer prompt" "$("$CLEF" run "${models[0]}" $long)" "$(hosts 2 "$slow" run "${models[0]}" $long --tp 2)"
for model in "${models[@]}"; do
  greedy="-p Once --temp 0 --ignore-eos -n 24 -q --print-ids"
  # shellcheck disable=SC2086
  want=$("$CLEF" run "$model" $greedy)
  for layout in "2 $slow --tp 2" "2 $slow --pp 2" "2 $fast --tp 2" "4 $fast --pp 4" "4 $slow --tp 2 --pp 2" "4 $fast --tp 4"; do
    read -r n _ rate _ latency flags <<<"$layout"
    case $model-$flags in *demo*"--tp 4") continue ;; esac # 6 heads
    # shellcheck disable=SC2086
    same "$(basename "$model") on $n hosts, $flags, $rate" "$want" "$(hosts "$n" "-r $rate -l $latency" run "$model" $greedy $flags)"
  done
  bytes "$model" 2 "$slow" 1Gbit,250us "--tp 2"
  bytes "$model" 2 "$slow" 1Gbit,250us "--pp 2"
  bytes "$model" 2 "$fast" 10Gbit,50us "--tp 2 --wire f16"
  bytes "$model" 4 "$fast" 10Gbit,50us "--tp 2 --pp 2"
  bytes "$model" 4 "$slow" 1Gbit,250us "--pp 4"
done
[ ${#models[@]} -gt 1 ] && bytes "${models[1]}" 4 "$fast" 10Gbit,50us "--tp 4"

# Training: the gradients cross during the backward pass, after it, or as is measured.
printf '%s\n' '{"model_type": "gpt2", "n_embd": 320, "n_layer": 2, "n_head": 2, "n_positions": 64}' >"$tmp/wide.json"
before=${CLEF_DEBUG:-}
for overlap in 0 1 ""; do
  export CLEF_DEBUG=$before,rank_overlap=$overlap
  out=$tmp/trained$overlap
  check "training on 2 hosts, rank_overlap=$overlap" hosts 2 "$fast" train --new "$tmp/wide.json" --tokenizer "$CLEF_SOURCE/share/demo" \
    --data "$CLEF_SOURCE/README.md" -c 16 -b 4 -n 8 --eval-every 0 --checkpoint-every 0 -q -o "$out"
  [ "$overlap" = 0 ] && want=$(sha256sum <"$out/model.safetensors")
  same "its weights" "$want" "$(sha256sum <"$out/model.safetensors")"
done
export CLEF_DEBUG=$before

# The cable is cut: nobody stays, and one line says who is lost. On an idle machine that takes some 7 s. Open MPI's launchers watch the connection
# between them (docs/scaling.md).
export OMPI_MCA_oob_tcp_keepalive_time=3 OMPI_MCA_oob_tcp_keepalive_intvl=1 OMPI_MCA_oob_tcp_keepalive_probes=3
CLEF_RANK_TIMEOUT=5 "$script" -q $slow "$CLEF" bench "$CLEF_SOURCE/share/demo" -p 0 -n 200 -r 100 --tp 2 -q >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
ours() { ip netns pids "clef-a-$pid" 2>/dev/null; ip netns pids "clef-b-$pid" 2>/dev/null; }
ranks() { for p in $(ours); do [ "$(cat "/proc/$p/comm" 2>/dev/null)" = clef ] && echo "$p"; done; }
# Until they have met, and sent each other a megabyte.
sent() { ip -n "clef-a-$pid" -s link show dev clef-cable 2>/dev/null | awk 'tx { print $1; exit } $1 == "TX:" { tx = 1 }'; }
for _ in $(seq 3000); do [ "$(sent || :)" ] && [ "$(sent)" -gt 1000000 ] && break; kill -0 $pid 2>/dev/null || break; sleep 0.1; done
same "two ranks before the cable is cut" 2 "$(ranks | wc -l)"
begin=$(date +%s%N)
ip -n "clef-a-$pid" link set dev clef-cable down
for _ in $(seq 3000); do [ -z "$(ours)" ] && break; sleep 0.1; done
took=$((($(date +%s%N) - begin) / 1000000))
left=$(ours)
code=0
if [ -n "$left" ]; then kill $pid; fi
wait $pid 2>/dev/null || code=$?
empty "the cable is cut: no rank and no launcher stays ($took ms)" "$left"
if [ $code -gt 0 ]; then ok "the cable is cut: exit $code"; else fail "the cable is cut: exit 0"; fi
same "the cable is cut: one line says who is lost" 1 "$(grep -cE '^clef: rank [01] on host-[ab] is lost \(last: ' "$tmp/err")"
empty "nothing of the hosts stays" "$(ip netns list | grep -E "clef-[a-d]-$pid"; pgrep -f "$CLEF bench $CLEF_SOURCE/share/demo -p 0 -n 200")"
finish
