"""From one wave's time and pipes to a launch's: four bounds, and the time where they meet.

memory    bytes that must come from memory, at the card's rate
cache     bytes that the second cache hands over
issue     instructions, at what the schedulers can issue
pipe      the busiest other pipe: a unit for matrices, f32, whole numbers, local memory, the first cache ..
latency   what a group takes from its begin to its end with all its waits, times the rounds of groups that the card needs"""

import math

import cards

SHARE_OF_MEMORY = 0.92  # of the published rate, which streaming reads reach at best
SHARPNESS = 3.0  # bounds a, b take (a^3 + b^3)^(1/3): 26 % more than either where they are equal

# Resident at once: warps, waves or threads of a scheduler; groups of a unit; bytes of local memory of a unit, and those that a
# group takes beside its own. Sources: docs/offline.md, "How occupancy is counted".
LIMITS = {
    "sm_70": (16, 32, 96 << 10, 0),
    "sm_80": (16, 32, 164 << 10, 1024),
    "sm_89": (12, 24, 100 << 10, 1024),
    "sm_90": (16, 32, 228 << 10, 1024),
    "gfx906": (10, 40, 64 << 10, 0),
    "gfx90a": (8, 32, 64 << 10, 0),
    "gfx1030": (16, 64, 128 << 10, 0),
    "gfx1100": (16, 64, 128 << 10, 0),
    "dg2": (8, 128, 128 << 10, 0),
    "tgllp": (7, 112, 64 << 10, 0),
}
OF_UNIT = ("local", "cache")


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


class Prediction:
    """Seconds: total, and memory, cache, issue, pipe, latency. rule: which bound is largest. share: of `limit` ("memory", "matrix",
    "dot" or "fma"), the rate that the launch could at best be held back by."""


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


def predict(launch, card, waves, lanes, figures):
    timer, mean_time = mean_of(waves)
    scale = mean_time / timer.length() if timer.length() else 1.0
    n_waves = launch.n_waves(lanes)
    resident = resident_groups(card, figures, launch, n_waves)
    units, simds, hz = card["units"], card["simds"], card["ghz"] * 1e9
    n_groups = launch.n_groups
    all_waves = n_groups * n_waves

    def load(pipes, n):
        """Cycles that n waves of a unit keep its busiest pipe busy."""
        return max((c * n * (1.0 if p in OF_UNIT else 1.0 / simds) for p, c in pipes.items()), default=0.0)

    total = {}
    chain = 0.0
    for often, length, pipes in timer.phases:
        chain += often * max(length, load(pipes, n_waves))
        for p, c in pipes.items():
            total[p] = total.get(p, 0.0) + often * c * scale
    chain *= scale

    def round_of(g):
        return meet(load(total, g * n_waves), chain)

    per_round = units * resident
    full, rest = divmod(n_groups, per_round)
    if full >= 3:
        core, rounds = n_groups / per_round * round_of(resident), n_groups / per_round
    else:
        core = full * round_of(resident) + (round_of(math.ceil(rest / units)) if rest else 0.0)
        rounds = full + (1 if rest else 0)
    from_memory, handed = bytes_of(timer, launch, all_waves, card, scale)
    out = Prediction()
    busy = {p: c * all_waves / units * (1.0 if p in OF_UNIT else 1.0 / simds) / hz for p, c in total.items()}
    # units of the card that the launch leaves idle
    idle = units * math.ceil(n_groups / units) / n_groups if n_groups < 4 * per_round else 1.0
    busy = {p: t * idle for p, t in busy.items()}
    issue_pipes = ("issue", "vector", "scalar")
    out.memory = from_memory / (card["memory_gbs"] * 1e9 * SHARE_OF_MEMORY)
    out.cache = handed / (card["cache_gbs"] * 1e9)
    out.issue = max((busy.get(p, 0.0) for p in issue_pipes), default=0.0)
    others = {p: t for p, t in busy.items() if p not in issue_pipes}
    out.pipe_name = max(others, key=others.get) if others else "-"
    out.pipe = others.get(out.pipe_name, 0.0)
    out.latency = rounds * chain / hz
    out.total = meet(core / hz, out.memory, out.cache)
    names = {"memory": out.memory, "cache": out.cache, "issue": out.issue, out.pipe_name: out.pipe, "latency": out.latency}
    out.rule = max(names, key=names.get)
    out.from_memory, out.handed = from_memory, handed
    out.resident = min(resident, math.ceil(n_groups / units)) * n_waves
    out.occupancy = min(1.0, resident * n_waves / (LIMITS[card["target"]][0] * simds))
    out.timer = timer
    out.is_bytes = timer.matrix_bytes
    out.work = {k: v * lanes * all_waves * scale for k, v in timer.work.items()}
    share_of_limit(out, launch, card)
    return out


def share_of_limit(out, launch, card):
    hz = card["ghz"] * 1e9
    per = {"fma": card["fma"], "half": card["fma"]}
    dot = {"nvidia": 64, "amd": card["fma"] if card["target"] != "gfx1100" else 128, "intel": card["fma"]}[cards.vendor(card["target"])]
    per["dot"] = 4 * dot
    limits = {"memory": out.from_memory / (card["memory_gbs"] * 1e9)}
    work = dict(out.work)
    useful = launch.flops / 2
    products = sum(work.get(k, 0) for k in ("matrix", "dot"))
    if products and useful:
        cut = min(1.0, useful / products)
        work = {k: v * cut if k in ("matrix", "dot") else 0.0 for k, v in work.items()}
    for kind, n in work.items():
        if kind == "matrix":
            rates = card.get("matrix", {})
            rate = rates.get("bytes" if out.is_bytes else "halves", 0)
        else:
            rate = per.get(kind, 0)
        if rate:
            limits[kind] = n / (rate * card["units"] * hz)
    out.limit = max(limits, key=limits.get)
    out.ideal = limits[out.limit]
    out.share = out.ideal / out.total if out.total else 0.0
