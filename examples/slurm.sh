#!/usr/bin/env bash
# Runs a model on several machines of a cluster with Slurm: a rank on each, which has all of the machine's processors.
#
# usage: sbatch [--nodes=N] examples/slurm.sh MODEL PROMPT [FLAG...]
#   MODEL     a path that all machines have
#   FLAG...   flags of clef run: --tp and --pp choose the layout
#
# For example, 8 machines as two stages of four:
#   sbatch --nodes=8 examples/slurm.sh /models/llama-70b.gguf "Once upon a time" --tp 4 --pp 2
#SBATCH --job-name=clef
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=01:00:00
#SBATCH --output=clef-%j.txt
set -euo pipefail
[ $# -ge 2 ] || { sed -n '4,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
model=$1 prompt=$2
shift 2

# Open MPI starts its ranks through Slurm. srun alone would start them without the variables by which clef knows them. Without
# --bind-to none a rank would be bound to one core.
start=(mpirun --bind-to none --map-by ppr:1:node)

# How fast the network is; clef plan --network reads the table.
"${start[@]}" clef bench --network >"clef-network-${SLURM_JOB_ID:-here}.txt"

"${start[@]}" clef run "$model" "$@" -p "$prompt"
