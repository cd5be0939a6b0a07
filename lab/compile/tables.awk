# The tables of lab/offline. It reads lines
#   KERNEL|CONSTANTS|TARGET|GROUP|OP|VARIANT|WHERE|REGISTERS|SPILLED|STACK|LOCAL|X|NUMBER
# with FAILED in place of the numbers where a kernel does not compile. X: waves a SIMD for AMD, SIMD width for Intel.
# -v wanted="TARGET ..."   the targets, in the order of the summary
# -v limits=FILE           occupancy.txt
# -v csv=FILE              a file that gets a line for each kernel on each target
# The summary, a Markdown table with a line for each target, goes to stdout.
# lab/docs/offline.md says how occupancy is counted and names the sources of the limits.

function round_up(x, to) { return int((x + to - 1) / to) * to }
function least(a, b) { return a < b ? a : b }

BEGIN {
  FS = "|"
  n_targets = split(wanted, target, " ")
  while ((getline line < limits) > 0) {
    if (line ~ /^#/) continue
    split(line, w, " ")
    waves[w[1]] = w[2]; unit_waves[w[1]] = w[2] * w[3]; unit_groups[w[1]] = w[4]; local_kib[w[1]] = w[5]; reserved[w[1]] = w[6]
  }
  for (i = 1; i <= n_targets; i++)
    if (!unit_waves[target[i]]) { print "tables.awk: " limits ": expected a line for " target[i] >"/dev/stderr"; failed = 1; exit 1 }
  print "where,kernel,constants,op,variant,target,group,registers,spilled,stack,local_bytes,simd_width,occupancy_percent" >csv
}

# Occupancy: what is resident of what a multiprocessor, SIMD or core can hold, in percent.
function nvidia(t, group, registers, local,   warps, n) {
  warps = int((group + 31) / 32)
  n = least(unit_groups[t], int(unit_waves[t] / warps))
  n = least(n, int(int(65536 / round_up(registers * 32, 256)) / warps))
  if (local + reserved[t]) n = least(n, int(local_kib[t] * 1024 / round_up(local + reserved[t], 128)))
  return 100 * n * warps / unit_waves[t]
}
function intel(t, group, registers, local, width,   n, per_group) {
  per_group = int((group + width - 1) / width)
  n = int(unit_waves[t] * (registers > 128 ? 0.5 : 1) / per_group)
  if (local) n = least(n, int(local_kib[t] * 1024 / round_up(local, 1024)))
  return 100 * n * per_group / unit_waves[t]
}
function occupancy(t, group, registers, local, x) {
  if (t ~ /^gfx/) return 100 * x / waves[t]
  return t ~ /^sm_/ ? nvidia(t, group, registers, local) : x ? intel(t, group, registers, local, x) : 0
}

{
  hot = $7 == "layer"
  kernels[$3]++; hot_kernels[$3] += hot
  printf "%s,%s,\"%s\",%s,%s,%s,%s,", $7, $1, $2, $5, $6 == "-" ? "" : $6, $3, $4 >csv
  if ($8 == "FAILED") { fails[$3]++; print "failed,,,,," >csv; next }
  o = occupancy($3, $4, $8, $11, $12)
  printf "%d,%d,%d,%d,%s,%.0f\n", $8, $9, $10, $11, $3 ~ /^(dg2|tgllp)$/ ? $12 : "", o >csv
  if ($9 + 0) { spills[$3]++; hot_spills[$3] += hot }
  if (hot) sum[$3] += o
}

END {
  if (failed) exit 1
  print "| target | kernels | of them hot | fail | spill | hot ones that spill | mean occupancy of the hot |"
  print "|---|---|---|---|---|---|---|"
  for (i = 1; i <= n_targets; i++) {
    t = target[i]
    printf "| %s | %d | %d | %d | %d | %d | %.0f %% |\n", t, kernels[t], hot_kernels[t], fails[t], spills[t],
      hot_spills[t], hot_kernels[t] ? sum[t] / hot_kernels[t] : 0
  }
}
