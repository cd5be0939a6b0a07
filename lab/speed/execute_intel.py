"""The instructions of Intel's machine code that compute: a method do_NAME for each. All others give results that are not known."""

import math
import re

from asm_intel import ACC, FLOATS
from machine import MASK, Stop, signed

CONDITION = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "ze": lambda a, b: a == 0,
    "nz": lambda a, b: a != 0,
    "l": lambda a, b: a < b,
    "g": lambda a, b: a > b,
}


def quotient(a, b):
    """Rounded towards 0."""
    return None if b == 0 else int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a, b):
    return None if b == 0 else a - b * quotient(a, b)


class Instructions:
    """Of a Thread (wave_intel.py), whose operands they read and whose registers they write."""

    def apply(self, ins, f, n_sources):
        """f of the sources, channel by channel; conditions are set."""
        o, n = ins.operands, ins.width
        sources = [self.values(x, n) for x in o[1 : 1 + n_sources]]
        if any(type(s) is list for s in sources):
            columns = [s if type(s) is list else [s] * n for s in sources]
            result = [None if None in row else f(*row) for row in zip(*columns)]
        else:
            result = None if None in sources else f(*sources)
        self.store(ins, o[0], result)
        c = ins.extra["condition"]
        if c and ins.op != "cmp":
            compare = CONDITION.get(c[0])
            # conditions look at the result as the destination's type has it
            kind = o[0][2] if o[0][0] == "r" else "d"

            def view(x):
                return x if type(x) is float else signed(x & MASK) if kind in ("d",) else x & MASK

            bits = (
                [None if x is None else compare(view(x), 0) for x in result]
                if type(result) is list
                else None if result is None else compare(view(result), 0)
            )
            self.set_flag(ins, c, bits)
        return result

    def do_mov(self, ins):
        self.apply(ins, lambda a: a, 1)

    def do_not(self, ins):
        self.apply(ins, lambda a: ~a, 1)

    def do_add(self, ins):
        self.apply(ins, lambda a, b: a + b, 2)

    def do_add3(self, ins):
        self.apply(ins, lambda a, b, c: a + b + c, 3)

    def do_mul(self, ins):
        self.apply(ins, lambda a, b: a * b, 2)

    def do_mad(self, ins):
        self.apply(ins, lambda a, b, c: a + b * c, 3)

    def do_mach(self, ins):
        if ins.extra["acc"]:
            result = self.apply(ins, lambda a, b: a * b >> 32, 2)
            o, n = ins.operands, ins.width
            a, b = self.values(o[1], n), self.values(o[2], n)
            rows = zip(a if type(a) is list else [a] * n, b if type(b) is list else [b] * n)
            for i, (x, y) in enumerate(rows):
                self.state[ACC + i] = None if x is None or y is None else x * y & MASK
            return result
        return self.apply(ins, lambda a, b: a * b, 2)

    do_macl = do_mach

    def do_addc(self, ins):
        o, n = ins.operands, ins.width
        a, b = self.values(o[1], n), self.values(o[2], n)
        rows = list(zip(a if type(a) is list else [a] * n, b if type(b) is list else [b] * n))
        self.apply(ins, lambda x, y: x + y, 2)
        for i, (x, y) in enumerate(rows):
            self.state[ACC + i] = None if x is None or y is None else int((x & MASK) + (y & MASK) > MASK)

    def do_subb(self, ins):
        o, n = ins.operands, ins.width
        a, b = self.values(o[1], n), self.values(o[2], n)
        rows = list(zip(a if type(a) is list else [a] * n, b if type(b) is list else [b] * n))
        self.apply(ins, lambda x, y: x - y, 2)
        for i, (x, y) in enumerate(rows):
            self.state[ACC + i] = None if x is None or y is None else int((x & MASK) < (y & MASK))

    def do_shl(self, ins):
        self.apply(ins, lambda a, b: a << (b & 63 if ins.operands[0][2] in ("q", "uq") else b & 31), 2)

    def do_shr(self, ins):
        wide = ins.operands[1][0] == "r" and ins.operands[1][2] in ("q", "uq")
        self.apply(ins, lambda a, b: (a & (0xFFFFFFFFFFFFFFFF if wide else MASK)) >> (b & (63 if wide else 31)), 2)

    def do_asr(self, ins):
        self.apply(ins, lambda a, b: a >> (b & 31), 2)

    def do_and(self, ins):
        self.apply(ins, lambda a, b: a & b, 2)

    def do_or(self, ins):
        self.apply(ins, lambda a, b: a | b, 2)

    def do_xor(self, ins):
        if ins.operands[0][0] == "r":
            self.apply(ins, lambda a, b: a ^ b, 2)

    def do_bfn(self, ins):
        expression = ins.op[4:]
        if not re.fullmatch(r"[s012&|^~()]+", expression):
            raise Stop(f"unknown operation {ins.op}")
        self.apply(ins, eval("lambda s0, s1, s2: " + expression), 3)

    def do_math(self, ins):
        if ins.op in ("math.iqot", "math.irem"):
            self.apply(ins, quotient if ins.op == "math.iqot" else remainder, 2)
        elif ins.op == "math.inv":
            self.apply(ins, lambda a: 1.0 / a if a else math.inf, 1)
        else:
            self.forget(ins)

    def do_rndz(self, ins):
        self.apply(ins, lambda a: float(math.trunc(a)) if math.isfinite(a) else a, 1)

    def do_rndd(self, ins):
        self.apply(ins, lambda a: float(math.floor(a)) if math.isfinite(a) else a, 1)

    def do_cmp(self, ins):
        o, n = ins.operands, ins.width
        a, b = self.values(o[1], n), self.values(o[2], n)
        is_whole = all(x[2] not in FLOATS for x in o[1:3] if x[0] in "ri")
        if is_whole:
            on = self.lanes_on(ins)
            whole = [None if (type(x) is list and None in x) else x for x in (a, b)]
            if on is not None and not all(on):
                whole = [[v for v, q in zip(x, on) if q] if type(x) is list else x for x in whole]
            self.compared(ins, whole[0], whole[1])
        compare = CONDITION.get(ins.extra["condition"][0]) if ins.extra["condition"] else None
        if is_whole and o[1] == o[2]:  # how a flag is set for the channels that run: equal, whatever is there
            a = b = 0
        if type(a) is list or type(b) is list:
            rows = zip(a if type(a) is list else [a] * n, b if type(b) is list else [b] * n)
            bits = [None if x is None or y is None else compare(x, y) for x, y in rows]
        else:
            bits = None if a is None or b is None else compare(a, b)
        if o[0][0] == "r":
            v = [None if x is None else -1 if x else 0 for x in bits] if type(bits) is list else None if bits is None else -1 if bits else 0
            self.store(ins, o[0], v)
        if ins.extra["condition"]:
            self.set_flag(ins, ins.extra["condition"], bits)

    def do_sel(self, ins):
        o, n = ins.operands, ins.width
        c = ins.extra["condition"]
        if c or "." in ins.op:
            name = c[0] if c else ins.op.split(".")[1].strip("()")
            self.store(ins, o[0], None) if name not in CONDITION else self.pick(ins, lambda a, b: a if CONDITION[name](a, b) else b)
            return
        a, b = self.values(o[1], n), self.values(o[2], n)
        p = self.flag(ins.guard[1], ins.guard[2], n) if ins.guard[1] else None
        if p is None:
            self.store(ins, o[0], None)
            return
        a = a if type(a) is list else [a] * n
        b = b if type(b) is list else [b] * n
        self.store(ins, o[0], [x if q else y for x, y, q in zip(a, b, p)])

    def pick(self, ins, f):
        saved, ins.extra["condition"] = ins.extra["condition"], None
        self.apply(ins, f, 2)
        ins.extra["condition"] = saved
