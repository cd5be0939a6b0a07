# The tables of tools/offline. It reads lines
#   KERNEL|CONSTANTS|TARGET|GROUP|OP|VARIANT|WHERE|REGISTERS|SPILLED|STACK|LOCAL|X|NUMBER
# with FAILED in place of the numbers where a kernel does not compile. X: waves a SIMD for AMD, SIMD width for Intel.
# -v wanted="TARGET ..."   the targets, in the order of the summary
# -v csv=FILE              a file that gets a line for each kernel on each target
# The summary, a Markdown table with a line for each target, goes to stdout.
# docs/offline.md says how occupancy is counted and names the sources of the limits.

function limits(t, warps, groups, shared, reserved) {
  nv_warps[t] = warps; nv_groups[t] = groups; nv_shared[t] = shared; nv_reserved[t] = reserved
}
function round_up(x, to) { return int((x + to - 1) / to) * to }
function least(a, b) { return a < b ? a : b }

BEGIN {
  FS = "|"
  n_targets = split(wanted, target, " ")
  limits("sm_70", 64, 32, 96, 0); limits("sm_80", 64, 32, 164, 1)
  limits("sm_89", 48, 24, 100, 1); limits("sm_90", 64, 32, 228, 1)
  amd_waves["gfx906"] = 10; amd_waves["gfx90a"] = 8; amd_waves["gfx1030"] = 16; amd_waves["gfx1100"] = 16
  threads["dg2"] = 128; threads["tgllp"] = 112; slm["dg2"] = 128; slm["tgllp"] = 64
  print "where,kernel,constants,op,variant,target,group,registers,spilled,stack,local_bytes,simd_width,occupancy_percent" >csv
}

# Occupancy: what is resident of what a multiprocessor, SIMD or core can hold, in percent.
function nvidia(t, group, registers, local,   warps, n) {
  warps = int((group + 31) / 32)
  n = least(nv_groups[t], int(nv_warps[t] / warps))
  n = least(n, int(int(65536 / round_up(registers * 32, 256)) / warps))
  if (local + nv_reserved[t]) n = least(n, int(nv_shared[t] * 1024 / round_up(local + 1024 * nv_reserved[t], 128)))
  return 100 * n * warps / nv_warps[t]
}
function intel(t, group, registers, local, width,   n, per_group) {
  per_group = int((group + width - 1) / width)
  n = int(threads[t] * (registers > 128 ? 0.5 : 1) / per_group)
  if (local) n = least(n, int(slm[t] * 1024 / round_up(local, 1024)))
  return 100 * n * per_group / threads[t]
}
function occupancy(t, group, registers, local, x) {
  if (t ~ /^gfx/) return 100 * x / amd_waves[t]
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
  print "| target | kernels | of them hot | fail | spill | hot ones that spill | mean occupancy of the hot |"
  print "|---|---|---|---|---|---|---|"
  for (i = 1; i <= n_targets; i++) {
    t = target[i]
    printf "| %s | %d | %d | %d | %d | %d | %.0f %% |\n", t, kernels[t], hot_kernels[t], fails[t], spills[t],
      hot_spills[t], hot_kernels[t] ? sum[t] / hot_kernels[t] : 0
  }
}
