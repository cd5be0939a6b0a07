"""The instructions of NVIDIA's machine code that compute whole numbers, predicates and addresses: a method do_NAME for each. All
others give results that are not known."""

import struct

from asm_nvidia import is_output, width_of
from machine import MASK, all_lanes, any_lane, lift1, lift2, lift3, low, signed


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


COMPARE = {
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "T": lambda a, b: True,
    "F": lambda a, b: False,
}


class Instructions:
    """Of a Warp (wave_nvidia.py), whose operands they read and whose registers they write."""

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
            result = lift3(
                lambda x, y, z: bool(z) if x == y else compare(x, y) if ins.mods[0] not in ("EQ", "NE") else ins.mods[0] == "NE",
                a,
                b,
                self.predicate(o[5]),
            )
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

    def do_fchk(self, ins):
        """Whether a quotient needs the slow way, as one of a number near the ends of f32 does: it does not."""
        self.put(ins.operands[0][1], False)

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
        self.put(
            ins.operands[0][1],
            lift1(lambda x: float_bits(1.0 / bits_float(x)) if bits_float(x) else 0x7F800000, low(self.value(ins.operands[1]))),
        )

    def do_f2i(self, ins):
        def convert(x):
            f = bits_float(x)
            return 0 if f != f else int(max(-(2.0**31), min(2.0**32 - 1, f))) & MASK  # nothing for NaN

        self.put(ins.operands[0][1], lift1(convert, low(self.value(ins.operands[1]))) if "64" not in ins.mods else None)
