"""The gate: no hot kernel may be predicted to use less of its card than before.

usage: check.py CSV TABLE ALLOW          compares; the exit code is 1 where a share fell or a step became slower
       check.py CSV TABLE ALLOW --write  writes the table
  CSV    what predict.py wrote
  TABLE  lines CARD,STEP,NODE,KERNEL,CONSTANTS,SHARE,RULE,US: the share of the limit in percent, of launches that take at least
         2 % of a step's time, and the time of all of them in the step; and CARD,STEP,,,,,,US for the step's kernels together.
         CONSTANTS: a digest of them, for readers
  ALLOW  lines KERNEL CARD[,CARD] why; * for all cards
A launch that is not in the table, or no longer there, is no failure: the step's time guards against that."""

import csv
import hashlib
import os
import re
import sys
from collections import defaultdict

POINTS = 5.0  # that a share may fall
SLOWER = 1.05  # that a step may take
LEAST = 0.02  # of a step's time, for a launch to be in the table


def summed(rows):
    """{(card, step, node, kernel): [share, rule, µs, constants]} and {(card, step): µs}"""
    kernels, steps = {}, defaultdict(float)
    for r in rows:
        if r["step"].startswith("layer/"):
            continue
        us = float(r["us"]) * int(r["count"])
        steps[r["card"], r["step"]] += us
        key = (r["card"], r["step"], r["node"], r["kernel"])
        share = float(r["share"])
        if key in kernels:
            old = kernels[key]
            rule = old[1] if old[2] >= us else r["rule"]
            kernels[key] = [(old[0] * old[2] + share * us) / (old[2] + us), rule, old[2] + us, old[3]]
        else:
            kernels[key] = [share, r["rule"], us, hashlib.sha256(r["constants"].encode()).hexdigest()[:8]]
    return kernels, steps


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def read_allowed(path):
    out = []
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                if not line.strip() or line.startswith("#"):
                    continue
                m = re.match(r"^(\S+) (\S+) (\S.*\S)$", line.strip())
                if not m:
                    sys.exit(f"check: {path}: expected 'KERNEL CARD[,CARD] why', got '{line.strip()}'")
                out.append((m.group(1), m.group(2).split(",")))
    return out


def is_allowed(allowed, kernel, card):
    return any(kernel == k and (card in c or "*" in c) for k, c in allowed)


def compare(rows, table, allowed):
    """Texts of what fell."""
    kernels, steps = summed(rows)
    failures = []
    for t in table:
        card, step = t["card"], t["step"]
        if (card, step) not in steps:
            continue
        if not t["kernel"]:
            now, before = steps[card, step], float(t["us"])
            if now > SLOWER * before and not is_allowed(allowed, "step", card):
                failures.append(f"{card}: {step}: its kernels take {now:.0f} µs, {before:.0f} in the table")
            continue
        now = kernels.get((card, step, t["node"], t["kernel"]))
        if now and now[0] < float(t["share"]) - POINTS and not is_allowed(allowed, t["kernel"], card):
            failures.append(
                f"{card}: {step}: {t['kernel']} of {t['node']}: {now[0]:.0f} % of its limit ({now[1]} rules), "
                f"{float(t['share']):.0f} % in the table ({t['rule']})"
            )
    return failures


COLUMNS = ["card", "step", "node", "kernel", "constants", "share", "rule", "us"]


def write(rows, path):
    kernels, steps = summed(rows)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for card, step in sorted(steps):
            writer.writerow([card, step, "", "", "", "", "", f"{steps[card, step]:.1f}"])
            for key in sorted(kernels):
                if key[:2] == (card, step) and kernels[key][2] >= LEAST * steps[card, step]:
                    share, rule, us, constants = kernels[key]
                    writer.writerow([card, step, key[2], key[3], constants, f"{share:.1f}", rule, f"{us:.1f}"])


def main():
    if len(sys.argv) not in (4, 5) or (len(sys.argv) == 5 and sys.argv[4] != "--write"):
        sys.exit(__doc__)
    rows = read_csv(sys.argv[1])
    if len(sys.argv) == 5:
        write(rows, sys.argv[2])
        return
    table = read_csv(sys.argv[2])
    failures = compare(rows, table, read_allowed(sys.argv[3]))
    for text in failures:
        print(f"speed: {text}; a line of {sys.argv[3]} may say why", file=sys.stderr)
    cards = {r["card"] for r in rows}
    n = sum(1 for t in table if t["card"] in cards)
    print(f"speed: {n - len(failures)} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
