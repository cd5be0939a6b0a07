# Tables of tools/offline: lines KERNEL|CONSTANTS|TARGET|GROUP|OP|VARIANT|WHERE|REGISTERS|SPILLED|STACK|LOCAL|X|NUMBER. -v wanted: targets.
# How occupancy is counted, and where the limits are from: docs/offline.md.

function limits(t, warps, groups, shared, kept) { nv_warps[t] = warps; nv_groups[t] = groups; nv_shared[t] = shared; nv_kept[t] = kept }
function up(x, to) { return int((x + to - 1) / to) * to }
function least(a, b) { return a < b ? a : b }

BEGIN {
  n_targets = split(wanted, target, " ")
  limits("sm_70", 64, 32, 96, 0); limits("sm_80", 64, 32, 164, 1); limits("sm_89", 48, 24, 100, 1); limits("sm_90", 64, 32, 228, 1)
  amd_waves["gfx906"] = 10; amd_waves["gfx90a"] = 8; amd_waves["gfx1030"] = 16; amd_waves["gfx1100"] = 16
  threads["dg2"] = 128; threads["tgllp"] = 112; slm["dg2"] = 128; slm["tgllp"] = 64
}

# Resident of what a multiprocessor, SIMD or core can hold, in percent.
function nvidia(t, group, registers, local,   warps, groups, n) {
  warps = int((group + 31) / 32)
  n = least(nv_groups[t], int(nv_warps[t] / warps))
  n = least(n, int(int(65536 / up(registers * 32, 256)) / warps))
  if (local + nv_kept[t]) n = least(n, int(nv_shared[t] * 1024 / up(local + 1024 * nv_kept[t], 128)))
  return 100 * n * warps / nv_warps[t]
}
function intel(t, group, registers, local, width,   n, per) {
  per = int((group + width - 1) / width)
  n = int(threads[t] * (registers > 128 ? 0.5 : 1) / per)
  if (local) n = least(n, int(slm[t] * 1024 / up(local, 1024)))
  return 100 * n * per / threads[t]
}
function occupancy(t, group, registers, local, x) {
  if (t ~ /^gfx/) return 100 * x / amd_waves[t]
  return t ~ /^sm_/ ? nvidia(t, group, registers, local) : x ? intel(t, group, registers, local, x) : 0
}

{
  key = $7 "|" $1 "|" $2
  if (!(key in row)) { row[key] = 1; order[++n_rows] = key; of[key] = $5 ($6 == "-" ? "" : " " $6) }
  if ($4 > group[key]) group[key] = $4
  seen[$3]++; hot[$3] += $7 == "layer"
  if ($8 == "FAILED") { cell[key, $3] = "fails"; fails[$3]++; next }
  o = occupancy($3, $4, $8, $11, $12)
  cell[key, $3] = ($3 ~ /^[dt]g/ ? "SIMD" $12 : $8) ($9 + 0 ? " +" $9 : "") ($10 + 0 ? " (" $10 ")" : "") sprintf(", %.0f %%", o)
  if ($11 + 0 > local[key] + 0) local[key] = $11
  if ($9 + 0) { spills[$3]++; hot_spills[$3] += $7 == "layer" }
  if ($7 == "layer") { sum[$3] += o }
}

function table(where,   r, i, f) {
  printf "| kernel | of | constants | group | local bytes |"
  for (i = 1; i <= n_targets; i++) printf " %s |", target[i]
  printf "\n|---|---|---|---|---|"
  for (i = 1; i <= n_targets; i++) printf "---|"
  print ""
  for (r = 1; r <= n_rows; r++) {
    split(order[r], f, "|")
    if (f[1] != where) continue
    printf "| %s | %s | %s | %s | %s |", f[2], of[order[r]], f[3], group[order[r]], local[order[r]] + 0
    for (i = 1; i <= n_targets; i++) printf " %s |", ((order[r], target[i]) in cell) ? cell[order[r], target[i]] : "-"
    print ""
  }
}

END {
  print "## Each target\n"
  print "| target | kernels | of them hot | fail | spill | hot ones that spill | mean occupancy of the hot |\n|---|---|---|---|---|---|---|"
  for (i = 1; i <= n_targets; i++) {
    t = target[i]
    printf "| %s | %d | %d | %d | %d | %d | %.0f %% |\n", t, seen[t], hot[t], fails[t], spills[t], hot_spills[t], hot[t] ? sum[t] / hot[t] : 0
  }
  print "\n## Hot kernels\n"; table("layer")
  print "\n## The others\n"; table("case")
}
