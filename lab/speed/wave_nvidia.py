"""A warp that executes NVIDIA's machine code (asm_nvidia.py): registers, lanes, memory and branches. execute_nvidia.py has the
instructions."""

import struct

from asm_nvidia import next_register
from execute_nvidia import Instructions
from machine import MASK, Memory, Wave, any_lane, known_words, lift1, lift2, low

PARAMETERS = {"sm_90": 0x210}  # where they begin in the constant bank; else 0x160


class Warp(Instructions, Wave):
    """32 lanes. launch: see launches.py; group: the three numbers of its group; first: its first lane in the group."""

    def __init__(self, code, launch, clock, group=(0, 0, 0), first=0):
        super().__init__(code, 32, clock)
        self.calls = []  # where the functions that are running go back to
        self.words = known_words(launch)
        self.place = None
        self.constants = Memory()
        at = PARAMETERS.get(launch.target, 0x160)
        head = bytearray(at)
        for i in range(3):
            struct.pack_into("<I", head, 4 * i, launch.local[i])
            struct.pack_into("<I", head, 12 + 4 * i, launch.groups[i])
        self.constants.add(0, bytes(head) + launch.parameters())
        lx, ly = launch.local[0], launch.local[1]
        items = [first + i for i in range(32)]
        n = launch.items
        self.active = [i < n for i in items]  # lanes that run now
        self.partial = not all(self.active)
        self.parked = {}  # lanes that wait, by the index where they go on
        self.special = {
            "SR_TID.X": [i % lx for i in items],
            "SR_TID.Y": [i // lx % ly for i in items],
            "SR_TID.Z": [i // (lx * ly) for i in items],
            "SR_CTAID.X": group[0],
            "SR_CTAID.Y": group[1],
            "SR_CTAID.Z": group[2],
            "SR_LANEID": list(range(32)),
            "SRZ": 0,
            "SR_LEMASK": None,
        }

    # ---- operands ------------------------------------------------------------------------------------------------------------------

    def register(self, name):
        return 0 if name.endswith("Z") else self.state.get(name)

    def predicate(self, o):
        value = True if o[1].endswith("T") else self.state.get(o[1])
        return lift1(lambda x: not x, value) if o[2] else value

    def constant(self, offset, register, n=4):
        if register:
            base = self.register(register)
            return lift1(lambda b: self.constants.read(b + offset, n) or 0, base)
        return self.constants.read(offset, n)

    def value(self, o, wide=False):
        kind = o[0]
        if kind == "i":
            return o[1]
        if kind == "r":
            v = self.register(o[1])
            if wide:
                high = self.register(next_register(o[1]))
                v = lift2(lambda a, b: a | b << 32, v, high)
            sign = o[2]
        elif kind == "c":
            v = self.constant(o[1], o[2], 8 if wide else 4)
            sign = o[3]
        elif kind == "p":
            return self.predicate(o)
        else:
            return None
        if not sign:
            return v
        full = 0xFFFFFFFFFFFFFFFF if wide else MASK
        if "~" in sign:
            v = lift1(lambda x: ~x & full, v)
        if "-" in sign:
            v = lift1(lambda x: full + 1 - x, v)
        return v

    def put(self, name, value):
        if not name.endswith("Z") and not name.endswith("T"):
            self.state[name] = value

    def put_wide(self, name, value):
        self.put(name, low(value))
        if not name.endswith("Z"):
            self.put(next_register(name), lift1(lambda x: x >> 32 & MASK, value))

    # ---- execution -----------------------------------------------------------------------------------------------------------------

    def step(self, ins):
        if self.parked and ins.index in self.parked:
            self.wake(ins.index)
        guard = True
        if ins.guard:
            guard = self.predicate(("p", ins.guard[0], ins.guard[1]))
        if self.partial and guard is not None:
            guard = [bool(a and g) for a, g in zip(self.active, guard if type(guard) is list else [guard] * 32)]
        runs = any_lane(guard)
        op = ins.op
        if op == "CALL" and (ins.extra or "").startswith("$") and runs:
            self.calls.append(ins.index + 1)
            self.clock.take(ins, None)
            return ins.target
        if op == "RET" and self.calls and runs:
            self.clock.take(ins, None)
            return self.calls.pop()
        if op == "BRA" or op == "CALL" and ins.target is not None:  # a call to a label within the kernel is a far branch
            return self.branch(ins, guard)
        if op == "EXIT":
            return self.exit(ins, guard)
        addresses = None
        if runs is False:
            self.clock.take(ins, None, False)
            return ins.index + 1
        if ins.bytes:
            addresses = self.addresses(ins, guard)
        if ins.run and runs is not None:
            before = [self.state.get(d) for d in ins.dst] if type(guard) is list else None
            ins.run(self, ins)
            if before is not None:
                for d, old in zip(ins.dst, before):
                    if d[0] != "U":
                        self.state[d] = merge(guard, self.state.get(d), old)
        else:
            for d in ins.dst:
                self.state[d] = None
        self.clock.take(ins, addresses)
        return ins.index + 1

    def wake(self, at):
        """Lanes that waited for the others here."""
        for lane in self.parked.pop(at):
            self.active[lane] = True
        self.partial = not all(self.active)

    def park(self, lanes, at):
        for lane in lanes:
            self.active[lane] = False
        if at is not None:
            self.parked.setdefault(at, []).extend(lanes)
        self.partial = not all(self.active)

    def first_parked(self):
        """Where to go on when no lane is left here."""
        if not self.parked:
            return None
        at = min(self.parked)
        self.wake(at)
        return at

    def exit(self, ins, guard):
        self.clock.take(ins, None)
        if guard is None:
            self.unknown += 1
            return ins.index + 1
        gone = [i for i in range(32) if self.active[i] and (guard[i] if type(guard) is list else guard)]
        self.park(gone, None)
        return ins.index + 1 if any(self.active) else self.first_parked()

    def branch(self, ins, guard):
        for o in ins.operands:
            if o[0] == "p":
                guard = lift2(lambda a, b: a and b, guard, self.predicate(o))
        self.clock.take(ins, None)
        if guard is None:
            self.unknown += 1
            return ins.index + 1
        if ins.target is None:
            return ins.index + 1
        if type(guard) is list:
            goes = [i for i in range(32) if self.active[i] and guard[i]]
            stays = [i for i in range(32) if self.active[i] and not guard[i]]
            taken = bool(goes)
            if goes and stays:
                taken = ins.target <= ins.index
                self.park(stays if taken else goes, ins.index + 1 if taken else ins.target)
        else:
            taken = guard
        if taken:
            self.clock.n_taken += ins.index
        return ins.target if taken else ins.index + 1

    def compared(self, instruction, a, b):
        if self.partial:
            a, b = ([x for x, on in zip(v, self.active) if on] if type(v) is list else v for v in (a, b))
        super().compared(instruction, a, b)

    def addresses(self, ins, guard):
        o = next((x for x in ins.operands if x[0] == "m"), None)
        if o is None:
            return None
        total = o[2]
        self.place = None
        for r in o[1]:
            if r.endswith("Z"):
                continue
            # 64 bits, but for a 32-bit register beside a uniform one of 64, and in local memory
            v = self.value(
                ("r", r, ""), ins.kind in ("load", "store") and (o[3] and (r[0] == "R" or len(o[1]) == 1) or not o[3] and r[0] == "U")
            )
            if o[4] > 1 and r[0] == "R":
                v = lift1(lambda x: x * o[4], v)
            total = lift2(lambda a, b: a + b, total, v)
        if total is None:
            return None
        self.place = total
        lanes = total if type(total) is list else [total] * 32
        on = guard if type(guard) is list else [True] * 32
        return [a & 0xFFFFFFFFFFFF for a, g, active in zip(lanes, on, self.active) if g and active]


def bind(code):
    """Gives each instruction the method that executes it."""
    for ins in code:
        ins.run = getattr(Warp, "do_" + ins.op.lower(), None)
    return code


def merge(guard, new, old):
    """New values in the lanes of the guard, old ones in the others."""
    n = len(guard)
    if new is None or old is None:
        return new
    new = new if type(new) is list else [new] * n
    old = old if type(old) is list else [old] * n
    return [x if g else y for g, x, y in zip(guard, new, old)]
