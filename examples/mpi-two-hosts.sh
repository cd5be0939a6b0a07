#!/usr/bin/env bash
# Runs a command with MPI on two machines that are simulated on this one, to see what a network costs.
#
# usage: examples/mpi-two-hosts.sh [-n RANKS] [-r RATE] [-q] COMMAND [ARGUMENT...]
#   -n RANKS   ranks on each of the two hosts [1]
#   -r RATE    the speed of the cable between them as tc writes it, such as 1gbit or 100mbit [as fast as it goes]
#   -q         prints nothing but what the command prints
#
# For example, ranks on two hosts with a cable of 1 Gbit/s:
#   sudo examples/mpi-two-hosts.sh -r 1gbit build/clef run model.gguf "Once upon a time"
#
# A host is a network namespace with a name of its own. A pair of virtual Ethernet devices connects the two. They share the
# processors, the memory and the files of this machine, so only the network is slower than on one machine. Needs root, Open MPI,
# iproute2 and util-linux. Everything that this script makes is removed when it ends, whether the command succeeds or not.
set -euo pipefail

say() { echo "mpi-two-hosts: $*" >&2; }
usage() { sed -n '4,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }

ranks=1 rate= quiet=
while getopts n:r:q flag; do
  case $flag in
    n) ranks=$OPTARG ;;
    r) rate=$OPTARG ;;
    q) quiet=yes ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage
case $ranks in '' | *[!0-9]* | 0) say "expected a number of ranks after -n, got '$ranks'"; exit 2 ;; esac
[ "$(id -u)" -eq 0 ] || { say "needs root, because it makes network namespaces: sudo $0 ..."; exit 2; }
for tool in mpirun ip tc unshare; do
  command -v $tool >/dev/null || { say "expected the program $tool. Debian: apt-get install openmpi-bin iproute2 util-linux"; exit 2; }
done

# The names of the namespaces hold this process's number, so that several of these scripts can run at once.
a=clef-a-$$ b=clef-b-$$
folder=$(mktemp -d)
mpirun_pid=

remove() {
  trap '' INT TERM
  local space pids tries=20
  if [ -n "$mpirun_pid" ]; then # it ends its ranks, if it still reaches them
    kill "$mpirun_pid" 2>/dev/null || true
    while kill -0 "$mpirun_pid" 2>/dev/null && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done
    disown "$mpirun_pid" 2>/dev/null || true
  fi
  for space in "$a" "$b"; do
    pids=$(ip netns pids "$space" 2>/dev/null || true)
    # shellcheck disable=SC2086
    [ -z "$pids" ] || kill -9 $pids 2>/dev/null || true
    ip netns delete "$space" 2>/dev/null || true # the cable goes with its ends
  done
  rm -rf "$folder"
}
trap remove EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- two hosts and a cable ----
ip netns add "$a"
ip netns add "$b"
ip link add clef-veth netns "$a" type veth peer name clef-veth netns "$b"
for end in "$a 10.77.0.1" "$b 10.77.0.2"; do
  read -r space address <<<"$end"
  ip -n "$space" link set lo up
  ip -n "$space" addr add "$address/24" dev clef-veth
  ip -n "$space" link set clef-veth up
  # A token bucket lets as many bytes through as the rate says. 128 KB may leave at once, as from a network card's memory.
  if [ -n "$rate" ]; then tc -n "$space" qdisc add dev clef-veth root tbf rate "$rate" burst 128k latency 50ms; fi
done

# ---- MPI ----
# mpirun starts its part on the other host with a program that takes a host and a command, which is usually ssh. This one enters
# the namespace of the host, and gives it its name.
cat >"$folder/agent" <<END
#!/bin/sh
case \$1 in 10.77.0.1) space=$a name=host-a ;; *) space=$b name=host-b ;; esac
shift
exec ip netns exec \$space unshare --uts sh -c "hostname \$name; \$*"
END
chmod +x "$folder/agent"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# --bind-to none matters. By default mpirun binds the only rank of a host to the first core, and here that is one core for both.
# The others keep Open MPI on the cable: it would also find the loopback devices.
[ -n "$quiet" ] || say "$ranks ranks on each of two hosts${rate:+, $rate between them}"
ip netns exec "$a" unshare --uts sh -c 'hostname host-a; exec "$@"' sh \
  mpirun --host "10.77.0.1:$ranks,10.77.0.2:$ranks" -n $((2 * ranks)) --bind-to none --mca plm_rsh_agent "$folder/agent" \
  --mca pml ob1 --mca btl self,vader,tcp --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
  "$@" <&0 &
mpirun_pid=$!
code=0
wait "$mpirun_pid" || code=$?
mpirun_pid=
exit "$code"
