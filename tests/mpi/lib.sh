# shellcheck shell=bash
# Sourced by the scripts beside it, after tests/e2e/lib.sh.
command -v mpirun >/dev/null || skip "no mpirun"
library=$CLEF_BUILD/libclef_mpi.so
# Open MPI refuses to run as root unless it is told twice. More ranks than cores are asked for, and none is bound to a core.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks=(mpirun)
over_tcp=()
if mpirun --version 2>/dev/null | grep -q "Open MPI"; then
  ranks=(mpirun --oversubscribe --bind-to none)
  over_tcp=(--mca btl self,tcp --mca pml ob1 --mca btl_tcp_if_include lo)
fi
# Nobody else has the leaks of MPI.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
# A rank that a busy machine stops for a while is not to be lost, nor a start that is slow. Tests of lost ranks have limits of their own.
export CLEF_RANK_TIMEOUT=60 CLEF_RANK_START=1800
