"""From one wave's time and pipes to a launch's: four bounds, and the time where they meet.

memory    bytes that must come from memory, at the card's rate
cache     bytes that the second cache hands over
issue     instructions, at what the schedulers can issue
pipe      the busiest other pipe: a unit for matrices, f32, whole numbers, local memory, the first cache ..
latency   what a group takes from its begin to its end with all its waits, times the rounds of groups that the card needs"""

import math
import os
from dataclasses import dataclass

import cards

SHARE_OF_MEMORY = 0.92  # of the published rate, which streaming reads reach at best
SHARPNESS = 3.0  # bounds a, b take (a^3 + b^3)^(1/3): 26 % more than either where they are equal
OF_UNIT = ("local", "cache")
ISSUE_PIPES = ("issue", "vector", "scalar")


def read_limits():
    """By target: (waves of a scheduler, groups of a unit, bytes of local memory of a unit, and of a group beside its own)."""
    out = {}
    with open(os.path.join(cards.HERE, "..", "compile", "occupancy.txt")) as file:
        for line in file:
            if not line.startswith("#"):
                target, *numbers = line.split()
                waves, _, groups, local, more = map(int, numbers)
                out[target] = waves, groups, local << 10, more
    return out


LIMITS = read_limits()


def round_up(x, to):
    return (x + to - 1) // to * to


def resident_groups(card, figures, launch, n_waves):
    """Groups of the launch that a unit holds at once."""
    target = card["target"]
    waves, groups, local, more = LIMITS[target]
    vendor = cards.vendor(target)
    most = waves * card["simds"]
    n = groups
    if vendor == "nvidia":
        registers = round_up(max(figures["registers"], 1) * 32, 256)
        n = min(n, most // n_waves, 65536 // registers // n_waves)
        if figures["local"] + more:
            n = min(n, local // round_up(figures["local"] + more, 128))
    elif vendor == "amd":
        n = min(n, (figures["x"] or waves) * card["simds"] // n_waves)
        if figures["local"]:
            n = min(n, local // figures["local"])
    else:
        threads = most // 2 if figures["registers"] > 128 else most
        n = min(n, threads // n_waves)
        if figures["local"]:
            n = min(n, local // round_up(figures["local"], 1024))
    return max(1, n)


def meet(*times):
    """The time where several bounds meet."""
    return sum(t**SHARPNESS for t in times) ** (1 / SHARPNESS)


@dataclass
class Prediction:
    """rule: which bound is largest. limit: "memory", "matrix", "dot" or "fma", the rate that the launch could at best be held back
    by; share: the time at that rate, of the predicted time."""

    timer: object  # the clock of the wave that stands for all
    total: float  # seconds, as are the bounds
    memory: float
    cache: float
    issue: float
    pipe: float
    pipe_name: str  # "-": none
    latency: float
    rule: str
    from_memory: float  # bytes
    handed: float
    occupancy: float  # 0 to 1
    limit: str
    share: float


def mean_of(waves):
    """Of several followed waves: the clock of the one whose time is nearest to the mean, which stands for all, and that mean."""
    timers = [t for t, _ in waves]
    n = len(timers)
    total = sum(t.length() for t in timers) / n
    return min(timers, key=lambda t: abs(t.length() - total)), total


def bytes_of(timer, launch, waves, card, scale):
    """(bytes from memory, bytes that the second cache hands over)"""
    from_memory = handed = unknown = 0.0
    stored = sum(b.n_bytes for b in launch.buffers if b is not None and b.is_stored)
    for buffer, n in timer.fetched.items():
        asked = n * waves * scale
        handed += asked
        if buffer == "?":
            unknown += asked
            continue
        b = launch.buffers[buffer] if isinstance(buffer, int) and 0 <= buffer < len(launch.buffers) else None
        if b is None:
            continue
        if b.is_stored or b.n_bytes > card["cache_mb"] * 1e6 / 2:
            from_memory += min(asked, b.n_bytes) if b.n_bytes else asked
    for buffer, n in timer.stored.items():
        handed += n * waves * scale
        b = launch.buffers[buffer] if isinstance(buffer, int) and 0 <= buffer < len(launch.buffers) else None
        if b is not None and b.n_bytes > card["cache_mb"] * 1e6 / 2:
            from_memory += min(n * waves * scale, b.n_bytes)
    # loads whose addresses are not known read the stored buffers, as far as these were not read yet
    return from_memory + min(unknown, max(0.0, stored - from_memory)), handed


class Group:
    """A work-group of a launch on a unit. pipes: cycles of one of its waves, by pipe; chain: cycles from its begin to its end,
    with all waits, when it is alone."""

    def __init__(self, timer, scale, n_waves, simds):
        self.n_waves, self.simds = n_waves, simds
        self.pipes, chain = {}, 0.0
        for often, length, pipes in timer.phases:
            chain += often * max(length, self.load(pipes, n_waves))
            for p, c in pipes.items():
                self.pipes[p] = self.pipes.get(p, 0.0) + often * c * scale
        self.chain = chain * scale

    def load(self, pipes, n):
        """Cycles that n waves of a unit keep its busiest pipe busy."""
        return max((c * n * (1.0 if p in OF_UNIT else 1.0 / self.simds) for p, c in pipes.items()), default=0.0)

    def together(self, n):
        """Cycles of n groups at once."""
        return meet(self.load(self.pipes, n * self.n_waves), self.chain)


def rounds_of(group, n_groups, units, resident):
    """(cycles of all groups, rounds of resident groups)"""
    per_round = units * resident
    full, rest = divmod(n_groups, per_round)
    if full >= 3:
        return n_groups / per_round * group.together(resident), n_groups / per_round
    last = group.together(math.ceil(rest / units)) if rest else 0.0
    return full * group.together(resident) + last, full + (1 if rest else 0)


def busy_of(group, n_groups, units, resident, hz):
    """Seconds that each pipe is busy, on the busiest unit where the launch leaves others idle."""
    idle = units * math.ceil(n_groups / units) / n_groups if n_groups < 4 * units * resident else 1.0
    waves = n_groups * group.n_waves
    return {p: c * waves / units * (1.0 if p in OF_UNIT else 1.0 / group.simds) / hz * idle for p, c in group.pipes.items()}


def predict(launch, card, waves, lanes, figures):
    timer, mean_time = mean_of(waves)
    scale = mean_time / timer.length() if timer.length() else 1.0
    n_waves, n_groups = launch.n_waves(lanes), launch.n_groups
    resident = resident_groups(card, figures, launch, n_waves)
    units, simds, hz = card["units"], card["simds"], card["ghz"] * 1e9
    group = Group(timer, scale, n_waves, simds)
    core, rounds = rounds_of(group, n_groups, units, resident)
    busy = busy_of(group, n_groups, units, resident, hz)
    others = {p: t for p, t in busy.items() if p not in ISSUE_PIPES}
    pipe_name = max(others, key=others.get) if others else "-"
    from_memory, handed = bytes_of(timer, launch, n_groups * n_waves, card, scale)
    bounds = {
        "memory": from_memory / (card["memory_gbs"] * 1e9 * SHARE_OF_MEMORY),
        "cache": handed / (card["cache_gbs"] * 1e9),
        "issue": max((busy.get(p, 0.0) for p in ISSUE_PIPES), default=0.0),
        "pipe": others.get(pipe_name, 0.0),
        "latency": rounds * group.chain / hz,
    }
    largest = max(bounds, key=bounds.get)
    total = meet(core / hz, bounds["memory"], bounds["cache"])
    work = {k: v * lanes * n_groups * n_waves * scale for k, v in timer.work.items()}
    limit, ideal = limit_of(work, timer.matrix_bytes, from_memory, launch, card)
    return Prediction(
        timer=timer,
        total=total,
        pipe_name=pipe_name,
        rule=pipe_name if largest == "pipe" else largest,
        from_memory=from_memory,
        handed=handed,
        occupancy=min(1.0, resident * n_waves / (LIMITS[card["target"]][0] * simds)),
        limit=limit,
        share=ideal / total if total else 0.0,
        **bounds,
    )


def limit_of(work, is_bytes, from_memory, launch, card):
    """(which of the card's published rates takes the launch longest, seconds at that rate). work: multiply-adds by kind; is_bytes:
    the matrix unit's are of bytes."""
    hz = card["ghz"] * 1e9
    dot = {"nvidia": 64, "amd": card["fma"] if card["target"] != "gfx1100" else 128, "intel": card["fma"]}[cards.vendor(card["target"])]
    matrix = card.get("matrix", {}).get("bytes" if is_bytes else "halves", 0)
    rates = {"fma": card["fma"], "half": card["fma"], "dot": 4 * dot, "matrix": matrix}
    limits = {"memory": from_memory / (card["memory_gbs"] * 1e9)}
    useful = launch.flops / 2
    products = sum(work.get(k, 0) for k in ("matrix", "dot"))
    if products and useful:
        cut = min(1.0, useful / products)
        work = {k: v * cut if k in ("matrix", "dot") else 0.0 for k, v in work.items()}
    for kind, n in work.items():
        if rates.get(kind):
            limits[kind] = n / (rates[kind] * card["units"] * hz)
    limit = max(limits, key=limits.get)
    return limit, limits[limit]
