#!/usr/bin/env bash
# Runs a command with MPI on two or more machines that are simulated on this one, to see what a network costs.
#
# usage: examples/mpi-two-hosts.sh [-m HOSTS] [-n RANKS] [-c CORES] [-r RATE] [-l LATENCY_US] [-q] COMMAND [ARGUMENT...]
#   -m HOSTS       hosts [2]
#   -n RANKS       ranks on each host [1]
#   -c CORES       cores of each host. Hosts share cores if this machine has fewer [all cores of this machine]
#   -r RATE        the speed of each host's cable as tc writes it, such as 1gbit or 100mbit [as fast as it goes]
#   -l LATENCY_US  microseconds from one host to another [as few as it takes]
#   -q             prints nothing but what the command prints
#
# For example, ranks on two hosts with a cable of 1 Gbit/s and 0.25 ms:
#   sudo examples/mpi-two-hosts.sh -r 1gbit -l 250 build/clef run model.gguf "Once upon a time"
#
# A host is a network namespace with a name of its own. A pair of virtual Ethernet devices connects two hosts. With -l, and for
# more hosts, examples/mpi-cable.c is the cable and the switch: it adds some 50 us of its own, and is built with cc. Hosts share
# the processors, the memory and the files of this machine, so only the network is slower than on one machine. Needs root, Open
# MPI, iproute2 and util-linux. Everything that this script makes is removed when it ends, whether the command succeeds or not.
set -euo pipefail

say() { echo "mpi-two-hosts: $*" >&2; }
usage() { sed -n '4,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }

hosts=2 ranks=1 cores= rate= latency= quiet=
while getopts m:n:c:r:l:q flag; do
  case $flag in
    m) hosts=$OPTARG ;;
    n) ranks=$OPTARG ;;
    c) cores=$OPTARG ;;
    r) rate=$OPTARG ;;
    l) latency=$OPTARG ;;
    q) quiet=yes ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage
# number FLAG VALUE WHAT
number() { case $2 in '' | *[!0-9]* | 0*) say "expected a number of $3 after $1, got '$2'"; exit 2 ;; esac; }
number -m "$hosts" hosts
number -n "$ranks" ranks
number -c "${cores:-1}" cores
number -l "${latency:-1}" microseconds
[ "$hosts" -ge 2 ] && [ "$hosts" -le 26 ] || { say "expected 2 to 26 hosts after -m, got $hosts"; exit 2; }
[ "$(id -u)" -eq 0 ] || { say "needs root, because it makes network namespaces: sudo $0 ..."; exit 2; }
for tool in mpirun ip tc unshare taskset; do
  command -v $tool >/dev/null || { say "expected the program $tool. Debian: apt-get install openmpi-bin iproute2 util-linux"; exit 2; }
done

# The names of the namespaces hold this process's number, so that several of these scripts can run at once.
letters=(a b c d e f g h i j k l m n o p q r s t u v w x y z)
spaces=()
for ((i = 0; i < hosts; i++)); do spaces+=("clef-${letters[i]}-$$"); done
folder=$(mktemp -d)
mpirun_pid=
cable_pid=

remove() {
  trap '' INT TERM
  local space pids tries=20
  if [ -n "$mpirun_pid" ]; then # it ends its ranks, if it still reaches them
    kill "$mpirun_pid" 2>/dev/null || true
    while kill -0 "$mpirun_pid" 2>/dev/null && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done
    disown "$mpirun_pid" 2>/dev/null || true
  fi
  for space in "${spaces[@]}"; do
    pids=$(ip netns pids "$space" 2>/dev/null || true)
    # shellcheck disable=SC2086
    [ -z "$pids" ] || kill -9 $pids 2>/dev/null || true
    ip netns delete "$space" 2>/dev/null || true # the cable goes with its ends
  done
  if [ -n "$cable_pid" ]; then kill -9 "$cable_pid" 2>/dev/null || true; fi
  rm -rf "$folder"
}
trap remove EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- hosts and cables ----
# bytes_per_second RATE
bytes_per_second() {
  case $1 in
    '') echo 0 ;;
    *[0-9]gbit) echo $((${1%gbit} * 125000000)) ;;
    *[0-9]mbit) echo $((${1%mbit} * 125000)) ;;
    *) say "expected a whole number with gbit or mbit after -r, got '$1'"; exit 2 ;;
  esac
}
# Devices that mpi-cable makes, when they are there.
connect_by_program() {
  local speed space tries
  speed=$(bytes_per_second "$rate") || exit 2
  "${CC:-cc}" -O2 -o "$folder/cable" "$(dirname "$0")/mpi-cable.c"
  "$folder/cable" "${latency:-0}" "$speed" "${spaces[@]}" &
  cable_pid=$!
  disown "$cable_pid"
  for space in "${spaces[@]}"; do
    tries=100
    until ip -n "$space" link show clef-cable >/dev/null 2>&1; do
      [ $((tries -= 1)) -gt 0 ] && kill -0 "$cable_pid" 2>/dev/null || { say "mpi-cable made no device"; exit 1; }
      sleep 0.05
    done
  done
}
# A token bucket lets as many bytes through as the rate says. 128 KB may leave at once, as from a network card's memory.
limit_rate() { [ -z "$rate" ] || tc -n "$1" qdisc add dev clef-cable root tbf rate "$rate" burst 128k latency 50ms; }

for space in "${spaces[@]}"; do ip netns add "$space"; done
if [ -n "$latency" ] || [ "$hosts" -gt 2 ]; then
  connect_by_program
else
  ip link add clef-cable netns "${spaces[0]}" type veth peer name clef-cable netns "${spaces[1]}"
  for space in "${spaces[@]}"; do limit_rate "$space"; done
fi
places=
n_cores=$(nproc)
for ((i = 0; i < hosts; i++)); do
  space=${spaces[i]}
  ip -n "$space" link set lo up
  ip -n "$space" addr add "10.77.0.$((i + 1))/24" dev clef-cable
  ip -n "$space" link set clef-cable up
  places+=,10.77.0.$((i + 1)):$ranks
done

# ---- MPI ----
# mpirun starts its part on another host with a program that takes a host and a command, which is usually ssh. This one enters
# the namespace of the host, and gives it its name and its cores.
# cores_of HOST: as taskset writes them
cores_of() {
  local k list=
  for ((k = 0; k < ${cores:-n_cores} && k < n_cores; k++)); do list+=${list:+,}$((($1 * ${cores:-0} + k) % n_cores)); done
  echo "$list"
}
{
  printf '#!/bin/sh\ncase $1 in\n'
  for ((i = 0; i < hosts; i++)); do
    echo "  10.77.0.$((i + 1))) space=${spaces[i]} name=host-${letters[i]} cores=$(cores_of $i) ;;"
  done
  printf 'esac\nshift\nexec ip netns exec $space unshare --uts taskset -c $cores sh -c "hostname $name; $*"\n'
} >"$folder/agent"
chmod +x "$folder/agent"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# --bind-to none matters. By default mpirun binds the only rank of a host to the first core, and here that is one core for both.
# The others keep Open MPI on the cable: it would also find the loopback devices.
[ -n "$quiet" ] || say "$hosts hosts with $ranks ranks each${rate:+, $rate}${latency:+, $latency us}"
ip netns exec "${spaces[0]}" unshare --uts taskset -c "$(cores_of 0)" sh -c 'hostname host-a; exec "$@"' sh \
  mpirun --host "${places#,}" -n $((hosts * ranks)) --bind-to none --mca plm_rsh_agent "$folder/agent" \
  --mca pml ob1 --mca btl self,vader,tcp --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
  "$@" <&0 &
mpirun_pid=$!
code=0
{ wait "$mpirun_pid" || code=$?; } 2>/dev/null # the shell would name the command again
mpirun_pid=
exit "$code"
