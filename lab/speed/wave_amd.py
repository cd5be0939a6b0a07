"""A wave that executes AMD's machine code (asm_amd.py): registers, lanes, memory and branches. execute_amd.py has the
instructions."""

import struct

import execute_amd
from asm_amd import next_name
from machine import MASK, Memory, Wave, known_words, lift1, lift2, low, signed

KERNARG, PACKET = 0x7000_0000_0000, 0x7100_0000_0000  # where the arguments and the launch's packet are


def bind(code):
    """Gives each instruction the function that executes it."""
    for ins in code:
        parts = ins.operands if ins.op == "v_dual" else ()
        for part in (ins, *parts):
            part.run = None if part.extra and part.extra.get("moves lanes") else execute_amd.RUN.get(part.op)
    return code


class AmdWave(Wave):
    def __init__(self, code, launch, clock, lanes, group=(0, 0, 0), first=0):
        super().__init__(code, lanes, clock)
        self.words = known_words(launch)
        self.memory = Memory()
        self.memory.add(KERNARG, launch.parameters() + bytes(64))
        packet = bytearray(64)
        for i in range(3):
            struct.pack_into("<H", packet, 4 + 2 * i, launch.local[i])
            struct.pack_into("<I", packet, 12 + 4 * i, launch.local[i] * launch.groups[i])
        self.memory.add(PACKET, packet)
        self.full = (1 << lanes) - 1
        items = [first + i for i in range(lanes)]
        on = sum(1 << i for i, item in enumerate(items) if item < launch.items)
        self.set_mask("exec_lo", on)
        lx, ly = launch.local[0], launch.local[1]
        ids = [[i % lx for i in items], [i // lx % ly for i in items], [i // (lx * ly) for i in items]]
        if launch.target in ("gfx90a", "gfx1100"):
            self.state["v0"] = [x | y << 10 | z << 20 for x, y, z in zip(*ids)]
        else:
            self.state["v0"], self.state["v1"], self.state["v2"] = ids
        self.place_arguments(launch, group)
        self.place = None

    def place_arguments(self, launch, group):
        """Which registers hold what at the start follows from which are read first: the arguments' address, before it the launch's
        packet where it is used, then the group."""
        written, loads, early = set(), [], set()
        for ins in self.code:
            for r in ins.src:
                if r not in written:
                    early.add(r)
            if ins.kind == "constant" and ins.operands[1][0] == "r" and ins.operands[1][1] not in written:
                loads.append(ins.operands[1][1])
            written.update(ins.dst)
            if ins.kind == "control" and len(loads) > 8:
                break
        head = 0 if launch.target == "gfx1100" else 4
        pairs = {int(x[1:]) for x in loads if x[0] == "s" and int(x[1:]) in (head, head + 2)}
        at = head
        if head + 2 in pairs:  # two addresses: the packet comes first
            self.put_wide("s" + str(head), PACKET)
            at = head + 2
        self.put_wide("s" + str(at), KERNARG)
        if launch.target == "gfx1100":
            first = 13 if "s13" in early else 14 if "s14" in early else 15
        else:
            first = (
                at
                + 2
                + (2 if any("flat_scratch" in ins.text or "scratch_" in ins.op for ins in self.code[:60]) and f"s{at + 4}" in early else 0)
            )
        for i in range(3):
            if first + i < 104 and (launch.target != "gfx1100" or first + i <= 15):
                self.state[f"s{first + i}"] = group[i]

    # ---- registers -----------------------------------------------------------------------------------------------------------------

    def value(self, o, wide=False):
        if o[0] == "i":
            return o[1]
        if o[0] != "r":
            return None
        name = o[1]
        if name == "null":
            return 0
        v = self.state.get(name)
        if wide:
            v = lift2(lambda a, b: a | b << 32, v, self.state.get(next_name(name)))
        if "-" in o[3]:
            v = None
        return v

    def put(self, name, v):
        if name[0] == "v" and name != "vcc_lo" and name != "vcc_hi":
            on = self.mask("exec_lo")
            if on is not None and on != self.full:
                v = self.merge(on, v, self.state.get(name))
        if name in ("exec_lo", "exec_hi") and (v is None or type(v) is list):
            return  # which lanes run depends on data: they all go on
        if name != "null":
            self.state[name] = v

    def merge(self, on, new, old):
        if new is None or old is None:
            return new
        n = self.lanes
        new = new if type(new) is list else [new] * n
        old = old if type(old) is list else [old] * n
        return [a if on >> i & 1 else b for i, (a, b) in enumerate(zip(new, old))]

    def put_wide(self, name, v):
        self.put(name, low(v))
        self.put(next_name(name), lift1(lambda x: x >> 32 & MASK, v))

    def mask(self, name):
        v = self.state.get(name)
        if self.lanes == 64:
            high = self.state.get(next_name(name))
            v = None if v is None or high is None or type(v) is list or type(high) is list else v | high << 32
        return v if type(v) is not list else None

    def set_mask(self, name, v):
        if name == "exec_lo" and v is None:
            return
        if self.lanes == 64:
            self.state[name] = None if v is None else v & MASK
            self.state[next_name(name)] = None if v is None else v >> 32 & MASK
        else:
            self.state[name] = v

    def mask_of(self, condition):
        """A lane mask from a compare's results."""
        if condition is None:
            return None
        on = self.mask("exec_lo")
        on = self.full if on is None else on
        if type(condition) is list:
            return sum(1 << i for i, c in enumerate(condition) if c) & on
        return on if condition else 0

    # ---- execution -----------------------------------------------------------------------------------------------------------------

    def step(self, ins):
        kind, op = ins.kind, ins.op
        if kind == "control":
            return self.branch(ins)
        on = self.mask("exec_lo")
        if on == 0 and op[0] != "s":
            self.clock.take(ins, None, False)
            return ins.index + 1
        addresses = None
        if ins.bytes and kind != "constant":
            addresses = self.addresses(ins, on)
        if ins.run is not None:
            ins.run(self, ins)
        elif kind == "constant":
            self.load_constant(ins)
        elif kind == "load" and ins.bytes >= 4:
            for name, v in zip(ins.dst, self.load_words(self.place, len(ins.dst))):
                self.put(name, v)
        else:
            for d in ins.dst:
                if not d.startswith("exec"):
                    self.state[d] = None
        self.clock.take(ins, addresses)
        return ins.index + 1

    def branch(self, ins):
        op = ins.op
        self.clock.take(ins, None)
        if op == "s_endpgm" or ins.target is None:
            return None
        if op == "s_branch":
            taken = True
        elif "scc" in op:
            v = self.state.get("scc")
            taken = None if v is None else bool(v) == op.endswith("1")
        else:
            v = self.mask("vcc_lo" if "vcc" in op else "exec_lo")
            if "vcc" in op and v is not None:
                on = self.mask("exec_lo")
                v &= self.full if on is None else on
            taken = None if v is None else (v == 0) == op.endswith("z") if not op.endswith("nz") else v != 0
        if taken is None:
            self.unknown += 1
            taken = False
        if taken:
            self.clock.n_taken += ins.index
        return ins.target if taken else ins.index + 1

    def addresses(self, ins, on):
        o = [x for x in ins.operands]
        op, kind, e = ins.op, ins.kind, ins.extra
        self.place = None
        if kind in ("local_load", "local_store", "shuffle"):
            at = o[1] if kind == "local_load" else o[0]
            base = self.value(at)
            offset = e.get("offset0", 0) * (ins.bytes // 2) if "offset0" in e or "offset1" in e else e["offset"]
        elif op.startswith(("global_", "flat_")):
            address = o[1] if kind == "load" else o[0]
            scalar = o[2] if kind == "load" and len(o) > 2 else o[2] if len(o) > 2 else None
            if scalar is not None and scalar[0] == "r":
                base = lift2(lambda a, b: a + b, self.value(address), self.value(scalar, True))
            else:
                base = self.value(address, True)
            offset = e["offset"]
        else:
            base, offset = 0, e["offset"]
            base = [i * 4 for i in range(self.lanes)]
        if base is None:
            return None
        self.place = lift1(lambda a: a + offset, base)
        lanes = self.place if type(self.place) is list else [self.place] * self.lanes
        on = self.full if on is None else on
        return [a & 0xFFFFFFFFFFFF for i, a in enumerate(lanes) if on >> i & 1]

    def load_constant(self, ins):
        base, offset = self.value(ins.operands[1], True), self.value(ins.operands[2]) if len(ins.operands) > 2 else 0
        offset = (offset or 0) + ins.extra["offset"]
        for i, name in enumerate(ins.dst):
            v = None
            if base is not None and type(base) is int:
                at = base + signed(offset & MASK) + 4 * i
                v = self.memory.read(at, 4)
                if v is None:
                    v = self.load_words(at, 1)[0]
            self.put(name, v)
