"""Predicts all launches that lab/kernels/list_launches.c wrote, and writes a line for each to a CSV file.

usage: predict.py LAUNCHES KEPT SUMS COMPILERS PROGRAMS OUT
  KEPT SUMS COMPILERS  what lab/offline kept (kept.py)
  PROGRAMS             the folder of the programs, whose first lines have their constants
Launches that cannot be followed are named on stderr, with the reason. The exit code is 1 if there are any."""

import csv
import multiprocessing
import os
import sys

import bounds
import cards
import follow
import kept as kept_module
import launches
from machine import Stop

COLUMNS = [
    "card",
    "target",
    "step",
    "kernel",
    "constants",
    "op",
    "variant",
    "node",
    "count",
    "groups",
    "group",
    "registers",
    "spilled",
    "occupancy",
    "us",
    "rule",
    "limit",
    "share",
    "memory_us",
    "cache_us",
    "issue_us",
    "pipe",
    "pipe_us",
    "latency_us",
    "memory_bytes",
    "cache_bytes",
    "bytes_a_load",
    "lines_a_load",
    "loop_rounds",
    "loop",
    "waits_for",
    "unknown",
]
REUSE = 1.5  # from which on a second pass takes into account that a stored buffer is read more than once


def constants_of(folder, program):
    with open(os.path.join(folder, program + ".cl")) as file:
        line = file.readline()
    words = line.replace("// options:", "").split()
    return " ".join(w for w in words if "=" in w and not w.startswith("-cl-std"))


def reuse_of(launch, timer, lanes):
    n = launch.n_groups * launch.n_waves(lanes)
    out = {}
    for buffer, asked in timer.fetched.items():
        if (
            isinstance(buffer, int)
            and 0 <= buffer < len(launch.buffers)
            and launch.buffers[buffer]
            and launch.buffers[buffer].is_stored
            and launch.buffers[buffer].n_bytes
        ):
            times = asked * n / launch.buffers[buffer].n_bytes
            if times > REUSE:
                out[buffer] = times
    return out


def main_loop(wave, timer):
    """(rounds, {kind: instructions a round}) of the loop that most of the executed instructions are in, without loops around it."""
    best, most = None, 0
    for branch, rounds in wave.rounds.items():
        target = wave.code[branch].target
        inside = [i for i in range(target, branch + 1)]
        if any(b != branch and target <= b <= branch and wave.rounds[b] > rounds for b in wave.rounds):
            continue
        executed = sum(timer.by_instruction.get(i, 0) for i in inside)
        if executed > most:
            best, most = (branch, rounds, inside), executed
    if best is None:
        return 0, {}
    _, rounds, inside = best
    kinds = {}
    for i in inside:
        kind = wave.code[i].kind
        kinds[kind] = kinds.get(kind, 0) + timer.by_instruction.get(i, 0) / (rounds + 1)
    return rounds + 1, kinds


def line_of(launch, card, constants, kept):
    waves, lanes, figures = follow.follow(kept, launch, card)
    reuse = reuse_of(launch, waves[0][0], lanes)
    if reuse:
        waves, lanes, figures = follow.follow(kept, launch, card, reuse)
    p = bounds.predict(launch, card, waves, lanes, figures)
    timer = p.timer
    wave = next(w for t, w in waves if t is timer)
    rounds, kinds = main_loop(wave, timer)
    loads = timer.kinds.get("load", 0)
    asked = sum(v for k, v in timer.requested.items())
    n_known = timer.n_lines.get("loads", 0)
    whole = timer.length()
    waits = ", ".join(
        f"{k} {100 * v / whole:.0f} %" for k, v in sorted(timer.wait_for.items(), key=lambda x: -x[1])[:2] if v > 0.05 * whole
    )
    us = 1e6
    return [
        launch.card,
        launch.target,
        launch.step,
        launch.kernel,
        constants,
        launch.op,
        launch.variant,
        launch.node,
        launch.count,
        "x".join(map(str, launch.groups)),
        launch.items,
        figures["registers"],
        figures["spilled"],
        f"{100 * p.occupancy:.0f}",
        f"{p.total * us:.2f}",
        p.rule,
        p.limit,
        f"{100 * p.share:.1f}",
        f"{p.memory * us:.2f}",
        f"{p.cache * us:.2f}",
        f"{p.issue * us:.2f}",
        p.pipe_name,
        f"{p.pipe * us:.2f}",
        f"{p.latency * us:.2f}",
        f"{p.from_memory:.0f}",
        f"{p.handed:.0f}",
        f"{asked / loads / lanes:.1f}" if loads else "",
        f"{timer.n_lines['lines'] / n_known:.1f}" if n_known else "",
        rounds,
        " ".join(f"{k}:{v:.0f}" for k, v in sorted(kinds.items(), key=lambda x: -x[1]) if v >= 0.5),
        waits,
        timer.unknown_loads,
    ]


state = {}


def start(args):
    folder, kept_folder, sums, compilers = args
    state["kept"] = kept_module.Kept(kept_folder, sums, compilers)
    state["cards"] = cards.cards()
    state["folder"] = folder


def work(batch):
    """All launches of a program on a card, so that its code is read once."""
    out, failed = [], []
    for launch in batch:
        card = state["cards"][launch.card]
        launch.target = card["target"]
        try:
            out.append((launch, line_of(launch, card, constants_of(state["folder"], launch.program), state["kept"])))
        except Exception as error:  # code that is read in a wrong way may end in any
            why = error if type(error) in (Stop, LookupError) else f"{type(error).__name__}: {error}"
            failed.append(f"{launch.card}: {launch.kernel} {constants_of(state['folder'], launch.program)} in {launch.step}: {why}")
    follow.parsed.clear()
    return out, failed


def batches_of(all_launches):
    """Batches of launches that differ, and for each key the launches that are equal."""
    equal, batches = {}, {}
    for l in all_launches:
        key = (l.card,) + l.key + (l.depth,)
        equal.setdefault(key, []).append(l)
    for key, group in equal.items():
        batches.setdefault((group[0].card, group[0].program), []).append(group[0])
    return list(batches.values()), equal


def main():
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    path, kept_folder, sums, compilers, folder, to = sys.argv[1:]
    batches, equal = batches_of(launches.read(path))
    failed, n = [], 0
    with open(to, "w", newline="") as file, multiprocessing.Pool(
        initializer=start, initargs=((folder, kept_folder, sums, compilers),)
    ) as pool:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for lines, bad in pool.imap(work, batches, chunksize=4):
            failed += bad
            for launch, line in lines:
                for other in equal[(launch.card,) + launch.key + (launch.depth,)]:
                    line[2], line[5], line[6], line[7], line[8] = other.step, other.op, other.variant, other.node, other.count
                    writer.writerow(line)
                    n += 1
    for text in sorted(failed):
        print(f"speed: {text}", file=sys.stderr)
    print(f"speed: {n} launches predicted, {len(failed)} could not be followed", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
