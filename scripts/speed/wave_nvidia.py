"""A warp that executes NVIDIA's machine code (asm_nvidia.py)."""
import struct

from asm_nvidia import is_output, next_register, width_of
from machine import MASK, Memory, Wave, all_lanes, any_lane, known_words, lift1, lift2, lift3, low, signed

PARAMETERS = {"sm_90": 0x210}  # where they begin in the constant bank; else 0x160


def lut(a, b, c, table):
    """LOP3: table's bit (4 a + 2 b + c) for each bit."""
    out = 0
    for i in range(8):
        if table >> i & 1:
            out |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return out & MASK


def float_bits(x):
    try:
        return struct.unpack("<I", struct.pack("<f", x))[0]
    except OverflowError:
        return 0x7F800000


def bits_float(x):
    return struct.unpack("<f", struct.pack("<I", x))[0]


def half_of(o):
    """The bits of an immediate half."""
    x = float(o[1]) if o[0] == "x" else float(signed(o[1]))
    return struct.unpack("<H", struct.pack("<e", x))[0]


COMPARE = {"LT": lambda a, b: a < b, "LE": lambda a, b: a <= b, "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
           "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "T": lambda a, b: True, "F": lambda a, b: False}


class Warp(Wave):
    """32 lanes. launch: see launches.py; group: the three numbers of its group; first: its first lane in the group."""

    def __init__(self, code, launch, clock, group=(0, 0, 0), first=0):
        super().__init__(code, 32, clock)
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
        self.parked = {}                      # lanes that wait, by the index where they go on
        self.special = {"SR_TID.X": [i % lx for i in items], "SR_TID.Y": [i // lx % ly for i in items], "SR_TID.Z": [i // (lx * ly) for i in items],
                        "SR_CTAID.X": group[0], "SR_CTAID.Y": group[1], "SR_CTAID.Z": group[2], "SR_LANEID": list(range(32)), "SRZ": 0,
                        "SR_LEMASK": None}

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
            v = self.value(("r", r, ""), ins.kind in ("load", "store") and (o[3] and (r[0] == "R" or len(o[1]) == 1) or not o[3] and r[0] == "U"))
            if o[4] > 1 and r[0] == "R":
                v = lift1(lambda x: x * o[4], v)
            total = lift2(lambda a, b: a + b, total, v)
        if total is None:
            return None
        self.place = total
        lanes = total if type(total) is list else [total] * 32
        on = guard if type(guard) is list else [True] * 32
        return [a & 0xFFFFFFFFFFFF for a, g, active in zip(lanes, on, self.active) if g and active]

    # ---- instructions --------------------------------------------------------------------------------------------------------------

    def split(self, ins):
        """The results' names and the operands that are read."""
        n = 1
        while n < len(ins.operands) and ins.operands[n][0] == "p" and is_output(ins, n):
            n += 1
        return [o[1] for o in ins.operands[:n]], ins.operands[n:]

    def do_mov(self, ins):
        self.put(ins.operands[0][1], low(self.value(ins.operands[1])))

    do_umov = do_r2ur = do_mov

    def do_ldc(self, ins):
        o = ins.operands[1]
        if "64" in ins.mods:
            self.put_wide(ins.operands[0][1], self.constant(o[1], o[2], 8) if o[0] == "c" else None)
        else:
            n = width_of(ins.mods)
            self.put(ins.operands[0][1], self.constant(o[1], o[2], n) if o[0] == "c" else None)

    do_uldc = do_ldc

    def do_ldg(self, ins):
        """Whole numbers that are known, such as the position."""
        for name, value in zip(ins.dst, self.load_words(self.place, len(ins.dst)) if ins.bytes >= 4 else [None]):
            self.put(name, value)

    do_ld = do_ldg

    def do_viaddmnmx(self, ins):
        o = ins.operands
        total = low(lift2(lambda x, y: x + y, self.value(o[1]), self.value(o[2])))
        key = (lambda x: x) if "U32" in ins.mods else signed
        p = self.predicate(o[4]) if len(o) > 4 and o[4][0] == "p" else True
        self.put(o[0][1], lift3(lambda x, y, z: (min if z else max)(x, y, key=key), total, low(self.value(o[3])), p))

    def do_s2r(self, ins):
        self.put(ins.operands[0][1], self.special.get(ins.operands[1][1]))

    do_s2ur = do_s2r

    def do_cs2r(self, ins):
        known = 0 if ins.operands[1][1] == "SRZ" else None
        if "32" in ins.mods:
            self.put(ins.operands[0][1], known)
        else:
            self.put_wide(ins.operands[0][1], known)

    def do_imad(self, ins):
        outs, o = self.split(ins)
        wide, unsigned = "WIDE" in ins.mods, "U32" in ins.mods
        a, b = low(self.value(o[0])), low(self.value(o[1]))
        c = self.value(o[2], wide or "HI" in ins.mods)
        if not unsigned and (wide or "HI" in ins.mods):
            product = lift2(lambda x, y: signed(x) * signed(y), a, b)
        else:
            product = lift2(lambda x, y: x * y, a, b)
        total = lift2(lambda x, y: x + y, product, c)
        if "HI" in ins.mods:
            total = lift1(lambda x: x >> 32, total)
        if "X" in ins.mods and len(o) > 3:
            total = lift2(lambda x, y: x + (1 if y else 0), total, self.predicate(o[3]))
        if len(outs) > 1:
            self.put(outs[1], lift1(lambda x: (x >> (64 if wide else 32)) != 0, total))
        if wide:
            self.put_wide(outs[0], total)
        else:
            self.put(outs[0], low(total))

    do_uimad = do_imad

    def do_iadd3(self, ins):
        outs, o = self.split(ins)
        total = lift3(lambda x, y, z: x + y + z, self.value(o[0]), self.value(o[1]), self.value(o[2]))
        if "X" in ins.mods:
            for p in o[3:]:
                total = lift2(lambda x, y: x + (1 if y else 0), total, self.predicate(p))
        for i, p in enumerate(outs[1:]):
            self.put(p, lift1(lambda x: x >> 32 > i, total))
        self.put(outs[0], low(total))

    do_uiadd3 = do_iadd3

    def do_iadd(self, ins):
        self.put(ins.operands[0][1], low(lift2(lambda x, y: x + y, self.value(ins.operands[1]), self.value(ins.operands[2]))))

    do_viadd = do_iadd

    def do_lea(self, ins):
        outs, o = self.split(ins)
        a, b = low(self.value(o[0])), self.value(o[1])
        rest = list(o[2:])
        carry = self.predicate(rest.pop()) if rest and rest[-1][0] == "p" else False
        shift = rest[-1][1] if rest and rest[-1][0] == "i" else 0
        if "HI" in ins.mods:
            if "SX32" in ins.mods:
                shifted = lift1(lambda x: signed(x) << shift >> 32 & MASK, a)
            else:
                high = self.value(rest[0]) if len(rest) > 1 else 0
                shifted = lift2(lambda x, y: (y << 32 | x) << shift >> 32 & MASK, a, high)
        else:
            shifted = lift1(lambda x: x << shift & MASK, a)
        total = lift2(lambda x, y: x + y, shifted, b)
        if "X" in ins.mods:
            total = lift2(lambda x, y: x + (1 if y else 0), total, carry)
        if len(outs) > 1:
            self.put(outs[1], lift1(lambda x: x >> 32 > 0, total))
        self.put(outs[0], low(total))

    do_ulea = do_lea

    def do_shf(self, ins):
        o = ins.operands
        a, n, c = low(self.value(o[1])), low(self.value(o[2])), low(self.value(o[3]))
        mods = ins.mods
        is64 = "U64" in mods or "S64" in mods
        most = 64 if is64 else 32

        def shift(x, k, y):
            k = k & (most - 1) if "W" in mods else min(k, most)
            if is64:
                v = y << 32 | x
                if "S64" in mods and y & 0x80000000:
                    v -= 1 << 64
                v = v << k if "L" in mods else v >> k
                return (v >> 32 if "HI" in mods else v) & MASK
            if "L" in mods:
                return ((y << 32 | x) << k >> 32 if "HI" in mods else x << k) & MASK
            if "HI" in mods:
                return (signed(y) if "S32" in mods else y) >> k & MASK
            return (y << 32 | x) >> k & MASK

        self.put(o[0][1], lift3(shift, a, n, c))

    do_ushf = do_shf

    def do_lop3(self, ins):
        o = list(ins.operands)
        outs = []
        while o[0][0] == "p":
            outs.append(o.pop(0)[1])
        name, a, b, c, table = o[0][1], low(self.value(o[1])), low(self.value(o[2])), low(self.value(o[3])), o[4][1]
        if table in (0xC0, 0x30, 0x0C) or (a is not None and b is not None and c is not None):
            if table == 0xC0:
                v = lift2(lambda x, y: x & y, a, b)
            else:
                v = lift3(lambda x, y, z: lut(x, y, z, table), a, b, c)
        else:
            v = None
        if outs:
            self.put(outs[0], lift1(lambda x: x != 0, v))
        self.put(name, v)

    do_ulop3 = do_lop3

    def do_plop3(self, ins):
        p = [o for o in ins.operands if o[0] == "p"]
        table = next((o[1] for o in ins.operands if o[0] == "i"), 0)
        a, b, c = self.predicate(p[2]), self.predicate(p[3]), self.predicate(p[4])
        self.put(p[0][1], lift3(lambda x, y, z: bool(table >> (4 * bool(x) + 2 * bool(y) + bool(z)) & 1), a, b, c))
        self.put(p[1][1], None)

    do_uplop3 = do_plop3

    def do_isetp(self, ins):
        o = ins.operands
        a, b = low(self.value(o[2])), low(self.value(o[3]))
        if "U32" not in ins.mods:
            a, b = lift1(signed, a), lift1(signed, b)
        self.compared(ins, a, b)
        compare = COMPARE[ins.mods[0]]
        if "EX" in ins.mods and len(o) > 5:
            result = lift3(lambda x, y, z: bool(z) if x == y else compare(x, y) if ins.mods[0] not in ("EQ", "NE") else ins.mods[0] == "NE",
                           a, b, self.predicate(o[5]))
        else:
            result = lift2(compare, a, b)
        other = self.predicate(o[4])
        combine = (lambda x, y: x or y) if "OR" in ins.mods else (lambda x, y: x != y) if "XOR" in ins.mods else (lambda x, y: x and y)
        self.put(o[0][1], lift2(combine, result, other))
        self.put(o[1][1], lift2(combine, lift1(lambda x: not x, result), other))

    do_uisetp = do_isetp

    def do_fsetp(self, ins):
        o = ins.operands
        a, b = (lift1(bits_float, low(self.value(x))) if x[0] != "x" else None for x in o[2:4])
        compare = COMPARE.get(ins.mods[0].rstrip("U"))
        result = lift2(compare, a, b) if compare else None
        other = self.predicate(o[4])
        combine = (lambda x, y: x or y) if "OR" in ins.mods else (lambda x, y: x and y)
        self.put(o[0][1], lift2(combine, result, other))
        self.put(o[1][1], None)

    def do_sel(self, ins):
        o = ins.operands
        a, b, p = low(self.value(o[1])), low(self.value(o[2])), self.predicate(o[3])
        if p is True or p is False:
            self.put(o[0][1], a if p else b)
        else:
            self.put(o[0][1], lift3(lambda x, y, z: x if z else y, a, b, p))

    do_usel = do_fsel = do_sel

    def do_imnmx(self, ins):
        o = ins.operands
        a, b, p = low(self.value(o[1])), low(self.value(o[2])), self.predicate(o[3])
        key = (lambda x: x) if "U32" in ins.mods else signed
        self.put(o[0][1], lift3(lambda x, y, z: (min if z else max)(x, y, key=key), a, b, p))

    do_vimnmx = do_uimnmx = do_imnmx

    def do_iabs(self, ins):
        self.put(ins.operands[0][1], lift1(lambda x: abs(signed(x)), low(self.value(ins.operands[1]))))

    def do_hfma2(self, ins):
        """Adds to nothing, by which a constant is loaded; all else is arithmetic."""
        o, known = ins.operands, None
        if len(o) == 5 and o[1][0] == "r" and o[1][1] == "RZ" and o[2][0] == "r" and o[2][1] == "RZ":
            known = half_of(o[3]) << 16 | half_of(o[4])
        self.put(o[0][1], known)

    def do_vote(self, ins):
        p = [o for o in ins.operands if o[0] == "p"]
        value = self.predicate(p[-1])
        combined = all_lanes(value) if "ALL" in ins.mods else any_lane(value)
        for o in ins.operands[:-1]:
            if o[0] == "p":
                self.put(o[1], combined)
            elif o[0] == "r":
                lanes = value if type(value) is list else [value] * 32
                self.put(o[1], None if value is None else sum(1 << i for i, x in enumerate(lanes) if x))

    do_voteu = do_vote

    def do_sgxt(self, ins):
        def extend(x, n):
            x &= (1 << n) - 1
            return x - (1 << n) & MASK if "U32" not in ins.mods and n and x >> (n - 1) else x

        self.put(ins.operands[0][1], lift2(extend, low(self.value(ins.operands[1])), low(self.value(ins.operands[2]))))

    do_usgxt = do_sgxt

    def do_bmsk(self, ins):
        o = ins.operands
        self.put(o[0][1], lift2(lambda a, n: ((1 << min(n, 32)) - 1) << a & MASK, low(self.value(o[1])), low(self.value(o[2]))))

    def do_p2r(self, ins):
        """Predicates to the bits of a byte of a register."""
        o = ins.operands
        shift = next((8 * int(m[1]) for m in ins.mods if m in ("B1", "B2", "B3")), 0)
        mask = o[3][1] if o[3][0] == "i" else 0x7F
        total = low(self.value(o[2])) if len(o) > 2 else 0
        for i in range(7):
            if mask >> i & 1:
                total = lift2(lambda a, b: (a & ~(1 << (i + shift))) | (int(bool(b)) << (i + shift)), total, self.state.get(f"P{i}"))
        self.put(o[0][1], total)

    def do_r2p(self, ins):
        o = ins.operands
        shift = next((8 * int(m[1]) for m in ins.mods if m in ("B1", "B2", "B3")), 0)
        v, mask = low(self.value(o[1])), o[2][1] if o[2][0] == "i" else 0x7F
        for i in range(7):
            if mask >> i & 1:
                self.state[f"P{i}"] = lift1(lambda x: bool(x >> (i + shift) & 1), v)

    def do_prmt(self, ins):
        o = ins.operands

        def permute(a, control, b):
            both, out = b << 32 | a, 0
            for i in range(4):
                c = control >> 4 * i & 15
                byte = both >> 8 * (c & 7) & 255
                out |= (255 if c & 8 and byte & 128 else 0 if c & 8 else byte) << 8 * i
            return out

        self.put(o[0][1], lift3(permute, low(self.value(o[1])), low(self.value(o[2])), low(self.value(o[3]))))

    do_uprmt = do_prmt

    def do_i2f(self, ins):
        convert = float if "U32" in ins.mods else (lambda x: float(signed(x)))
        self.put(ins.operands[0][1], lift1(lambda x: float_bits(convert(x)), low(self.value(ins.operands[1]))))

    do_i2fp = do_i2f

    def do_mufu(self, ins):
        if ins.mods[0] != "RCP":
            self.put(ins.operands[0][1], None)
            return
        self.put(ins.operands[0][1], lift1(lambda x: float_bits(1.0 / bits_float(x)) if bits_float(x) else 0x7F800000, low(self.value(ins.operands[1]))))

    def do_f2i(self, ins):
        def convert(x):
            f = bits_float(x)
            return 0 if f != f else int(max(-2.0 ** 31, min(2.0 ** 32 - 1, f))) & MASK  # nothing for NaN

        self.put(ins.operands[0][1], lift1(convert, low(self.value(ins.operands[1]))) if "64" not in ins.mods else None)


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
