"""The gate: no hot kernel may be predicted to use less of its card than before.

usage: check.py CSV TABLE ALLOW [WISHES]  compares; the exit code is 1 where a share fell, a step became slower, or a step of the
                                          table was wished for and is not in CSV
       check.py CSV TABLE ALLOW --write   writes the table
  CSV     what predict.py wrote
  TABLE   lines CARD,STEP,NODE,KERNEL,CONSTANTS,SHARE,RULE,US,COUNT: of launches that take at least 2 % of a step's time, the
          share of the limit in percent, the mean time of one, and how many the step has; and CARD,STEP,,,,,,US,COUNT for the
          time of all kernels of the step, and its launches. CONSTANTS: a digest of them, for readers
  ALLOW   lines KERNEL CARD[,CARD] why; * for all cards
  WISHES  what list_launches was given (cards.py)
A launch that is not in the table, or no longer there, is not a failure: the step's time guards against that. Launches of layers
alone (layer/...) are in no table."""

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
    """{(card, step, node, kernel): [share, rule, µs of all, constants, launches]} and {(card, step): [µs, launches]}"""
    kernels, steps = {}, defaultdict(lambda: [0.0, 0])
    for r in rows:
        if r["step"].startswith("layer/"):
            continue
        count = int(r["count"])
        us = float(r["us"]) * count
        step = steps[r["card"], r["step"]]
        step[0] += us
        step[1] += count
        key = (r["card"], r["step"], r["node"], r["kernel"])
        share = float(r["share"])
        if key in kernels:
            old = kernels[key]
            rule = old[1] if old[2] >= us else r["rule"]
            kernels[key] = [(old[0] * old[2] + share * us) / (old[2] + us), rule, old[2] + us, old[3], old[4] + count]
        else:
            kernels[key] = [share, r["rule"], us, hashlib.sha256(r["constants"].encode()).hexdigest()[:8], count]
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


def read_wishes(path):
    """The (card, step) that were wished for."""
    cards, steps, model = [], [], None
    with open(path) as file:
        for line in file:
            kind, name = line.split()[:2]
            if kind == "card":
                cards.append(name)
            elif kind == "model":
                model = name
            elif kind == "step":
                steps.append(f"{model}/{name}")
    return {(card, step) for card in cards for step in steps}


def compare(rows, table, allowed, wished=()):
    """(how many lines of the table were compared, texts of what fell or is missing)"""
    kernels, steps = summed(rows)
    failures, n = [], 0
    for t in table:
        card, step = t["card"], t["step"]
        if (card, step) not in steps:
            if not t["kernel"] and (card, step) in wished:
                n += 1
                failures.append(f"{card}: {step}: it is in the table, and has no launches")
            continue
        n += not t["kernel"] or (card, step, t["node"], t["kernel"]) in kernels
        if not t["kernel"]:
            now, before = steps[card, step][0], float(t["us"])
            if now > SLOWER * before and not is_allowed(allowed, "step", card):
                failures.append(f"{card}: {step}: its kernels take {now:.0f} µs, {before:.0f} in the table")
            continue
        now = kernels.get((card, step, t["node"], t["kernel"]))
        if now and now[0] < float(t["share"]) - POINTS and not is_allowed(allowed, t["kernel"], card):
            failures.append(
                f"{card}: {step}: {t['kernel']} of {t['node']}: {now[0]:.0f} % of its limit ({now[1]} rules), "
                f"{float(t['share']):.0f} % in the table ({t['rule']})"
            )
    return n, failures


COLUMNS = ["card", "step", "node", "kernel", "constants", "share", "rule", "us", "count"]


def write(rows, path):
    kernels, steps = summed(rows)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for card, step in sorted(steps):
            whole, n = steps[card, step]
            writer.writerow([card, step, "", "", "", "", "", f"{whole:.1f}", n])
            for key in sorted(kernels):
                if key[:2] == (card, step) and kernels[key][2] >= LEAST * whole:
                    share, rule, us, constants, count = kernels[key]
                    writer.writerow([card, step, key[2], key[3], constants, f"{share:.1f}", rule, f"{us / count:.2f}", count])


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    rows = read_csv(sys.argv[1])
    if sys.argv[4:] == ["--write"]:
        write(rows, sys.argv[2])
        return
    table = read_csv(sys.argv[2])
    wished = read_wishes(sys.argv[4]) if len(sys.argv) == 5 else ()
    n, failures = compare(rows, table, read_allowed(sys.argv[3]), wished)
    for text in failures:
        print(f"speed: {text}; a line of {sys.argv[3]} may say why", file=sys.stderr)
    print(f"speed: {n - len(failures)} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
