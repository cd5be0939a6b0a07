"""The time that one wave takes alone, in order, and what it takes of its multiprocessor's pipes.

Phases: from barrier to barrier. A phase has a length, which is the wave's own time with all its waits, and cycles by pipe."""

from collections import Counter

from machine import buffer_of

LINE = 128  # bytes of a line of the first cache
SECTOR = 32  # bytes that the second cache hands over at once
BANKS = 32  # of local memory, of four bytes each


class Clock:
    """of: a launch (launches.py); costs: pipes.Costs. reuse: how often each byte of a stored buffer is read in the launch; the
    first read comes from memory, the others from the second cache."""

    def __init__(self, launch, card, costs, reuse=None):
        self.launch, self.card, self.costs = launch, card, costs
        self.reuse = reuse or {}
        first, second, memory = (ns * card["ghz"] for ns in card["latency_ns"])
        self.first, self.second, self.memory = first, second, memory
        self.time = self.begin = 0.0
        self.waited = 0.0  # cycles in which a result was waited for
        self.ready, self.free, self.comes_from = {}, {}, {}
        self.pipes = Counter()
        self.phases = []  # [how often, length, pipes]
        self.kinds = Counter()  # instructions by kind
        self.work = Counter()  # multiply-adds of a lane by kind
        self.requested = Counter()  # bytes that lanes ask for, by buffer; and by (kind, bytes a lane): "widths"
        self.fetched = Counter()  # bytes of sectors, by buffer: what the second cache hands over
        self.stored = Counter()
        self.wait_for = Counter()  # cycles waited, by what for
        self.n_lines = Counter()  # (loads, lines) of global loads
        self.by_instruction = Counter()  # executions
        self.lines_of = Counter()  # by instruction: lines
        self.sectors = {}  # seen: by buffer
        self.unknown_loads = 0
        self.matrix_bytes = False  # whether its matrix unit multiplies bytes
        self.n_taken = 0

    # ---- memory ----------------------------------------------------------------------------------------------------------------------

    def memory_access(self, ins, addresses):
        """(lines that the pipe handles, where the slowest comes from)"""
        n = ins.bytes
        if addresses is None:
            self.unknown_loads += 1
            size = ins.whole or self.costs.lanes * n
            if ins.kind == "load":
                self.fetched["?"] += size
                self.requested["?"] += size
            return max(1.0, size / LINE), "second"
        if not addresses:
            return 0, "first"
        lines, sectors = set(), set()
        for a in addresses:
            lines.add(a // LINE)
            lines.add((a + n - 1) // LINE)
            sectors.add(a // SECTOR)
            sectors.add((a + n - 1) // SECTOR)
            for more in range(SECTOR, n, SECTOR):
                sectors.add((a + more) // SECTOR)
        buffer = buffer_of(addresses[0])
        if ins.kind == "store":
            self.stored[buffer] += len(sectors) * SECTOR
            return max(len(lines), len(sectors) * SECTOR / LINE), "first"
        self.requested[buffer] += n * len(addresses)
        seen = self.sectors.setdefault(buffer, set())
        fresh = sectors - seen
        if len(seen) > 200_000:
            seen.clear()
        seen |= fresh
        self.fetched[buffer] += len(fresh) * SECTOR
        self.n_lines["loads"] += 1
        self.n_lines["lines"] += len(lines)
        self.lines_of[ins.index] += len(lines)
        return self.passes(addresses, n, lines, sectors), buffer if fresh else "first"

    def passes(self, addresses, n, lines, sectors):
        """Of a load through the first cache: each takes a line. NVIDIA's serves half of a warp at once if lanes load 8 bytes, and a
        quarter if they load 16, also if all read the same line."""
        whole = max(len(lines), len(sectors) * SECTOR / LINE)
        if self.costs.vendor != "nvidia" or n <= 4:
            return whole
        lanes = max(1, LINE // n)
        parts = (addresses[i : i + lanes] for i in range(0, len(addresses), lanes))
        return max(whole, sum(len({x // LINE for a in part for x in (a, a + n - 1)}) for part in parts))

    def local_access(self, ins, addresses):
        """Cycles of local memory: what the busiest bank serves. Lanes that read the same word are served at once. Wider reads than
        a word are served for a quarter of the lanes at a time, or half of them, or for as many as all banks together can: 128 bytes
        a cycle for Intel's narrow waves, too (oneAPI GPU Optimization Guide, "Intel Xe GPU Architecture": the data port)."""
        n = ins.bytes
        if not addresses:
            return max(1.0, (ins.whole or n * self.costs.lanes) / 128.0)
        per = max(1, len(addresses) * 4 // n, BANKS * 4 // n) if n > 4 else len(addresses)
        total = 0
        for start in range(0, len(addresses), per):
            busy = Counter()
            for word in {a // 4 + i for a in addresses[start : start + per] for i in range(max(1, n // 4))}:
                busy[word % BANKS] += 1
            total += max(busy.values())
        return float(total)

    def latency(self, ins, source):
        if ins.kind not in ("load", "spill"):
            return self.costs.latency(ins)
        if source == "first":
            return self.first
        if source == "memory":
            return self.memory
        buffers = self.launch.buffers
        if isinstance(source, int) and 0 <= source < len(buffers) and buffers[source] and buffers[source].is_stored:
            reuse = max(1.0, self.reuse.get(source, 1.0))
            return (self.memory + (reuse - 1) * self.second) / reuse
        return self.second

    # ---- time ------------------------------------------------------------------------------------------------------------------------

    def take(self, ins, addresses, is_executed=True):
        kind, lines, source = ins.kind, 0, "first"
        if is_executed and ins.bytes:
            if kind in ("local_load", "local_store"):
                lines = self.local_access(ins, addresses)
            elif kind != "constant":
                lines, source = self.memory_access(ins, addresses)
        pipes = self.costs.pipes(ins, lines) if is_executed else {"issue": 1} if self.costs.family in ("nvidia", "intel") else {}
        at, ready, why = self.time, self.ready, None
        for r in ins.src:
            when = ready.get(r, 0.0)
            if when > at:
                at, why = when, self.comes_from.get(r)
        for pipe in pipes:
            when = self.free.get(pipe, 0.0)
            if when > at:
                at = when
        if why is not None and at > self.time + 8:
            self.wait_for[why] += at - self.time
        step = 0.0
        for pipe, cycles in pipes.items():
            self.pipes[pipe] += cycles
            self.free[pipe] = at + cycles
            if pipe not in ("local", "cache", "slow unit", "matrix", "double") and cycles > step:
                step = cycles
        if is_executed and ins.dst:
            done = at + self.latency(ins, source) + (max(pipes.values()) if pipes else 0)
            from_what = kind if kind not in ("load",) else "load" if source != "first" else "load of the first cache"
            for r in ins.dst:
                ready[r] = done
                self.comes_from[r] = from_what
        self.kinds[kind] += 1
        self.by_instruction[ins.index] += 1
        if ins.work:
            self.work[kind] += ins.work
            if kind == "matrix":
                self.matrix_bytes = ins.multiplies_bytes
        if kind == "barrier":
            step += 20
        elif kind == "control":
            step = max(step, 1.0)
        self.time = at + step
        if kind == "barrier":
            self.close()

    def close(self):
        self.phases.append([1, self.time - self.begin, dict(self.pipes)])
        self.pipes = Counter()
        self.begin = self.time

    COUNTERS = ("kinds", "work", "requested", "fetched", "stored", "wait_for", "n_lines", "by_instruction", "lines_of")

    def snapshot(self):
        out = {name: Counter(getattr(self, name)) for name in self.COUNTERS}
        out.update(time=self.time, begin=self.begin, pipes=Counter(self.pipes), n_phases=len(self.phases), unknown=self.unknown_loads)
        return out

    def skip(self, first, second, n):
        """Goes on as in n more rounds like the one between two snapshots."""
        for name in self.COUNTERS:
            own, a, b = getattr(self, name), first[name], second[name]
            for key, value in b.items():
                own[key] += n * (value - a.get(key, 0))
        self.unknown_loads += n * (second["unknown"] - first["unknown"])
        phases = self.phases[first["n_phases"] : second["n_phases"]]
        if phases:
            self.phases += [[often * n, length, pipes] for often, length, pipes in phases]
            return
        length = n * (second["time"] - first["time"])
        for pipe, cycles in second["pipes"].items():
            self.pipes[pipe] += n * (cycles - first["pipes"].get(pipe, 0))
        self.time += length
        self.ready = {r: when + length for r, when in self.ready.items()}
        self.free = {p: when + length for p, when in self.free.items()}

    def length(self):
        """Of the whole wave, alone."""
        return sum(often * length for often, length, _ in self.phases)

    def finish(self):
        last = max(self.ready.values(), default=0.0)
        self.time = max(self.time, min(last, self.time + self.memory))
        self.close()
