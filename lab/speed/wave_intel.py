"""A thread that executes Intel's machine code (asm_intel.py): registers, channels, messages and branches. execute_intel.py has
the instructions."""

import math
import struct

from asm_intel import SIZE
from execute_intel import Instructions
from machine import BUFFER_SHIFT, MASK, Memory, Wave, known_words, signed

PAYLOAD = 0x10000  # address of the arguments
PRIVATE = 0x7200_0000_0000


def bind(code):
    """Gives each instruction the method that executes it."""
    for ins in code:
        ins.run = getattr(Thread, "do_" + ins.op.split(".")[0], None)
    return code


class Thread(Instructions, Wave):
    def __init__(self, code, launch, clock, lanes, group=(0, 0, 0)):
        super().__init__(code, lanes, clock)
        self.words = known_words(launch)
        self.memory = Memory()
        self.launch = launch
        self.payload = code.payload
        self.flags = {}
        self.wait_at = [None] * 32  # where a channel waits for the others
        n = min(lanes, launch.items)
        self.on = [i < n for i in range(32)]
        self.waiting = False  # whether a channel waits
        self.everything = list(self.on)
        self.place = None
        data, size = self.arguments()
        inline = self.payload["inline"]
        if inline:  # the first register of the data comes with the thread, it loads the rest
            self.preset(1, data[:inline])
            self.memory.add(PAYLOAD, data[inline:size] + self.local_ids())
        else:  # all of it comes with the thread: local ids, then the data
            ids = self.local_ids()
            self.preset(1, ids + data[:size])
        for i in range(8):
            self.state[i] = 0
        self.state[0], self.state[1], self.state[2], self.state[6], self.state[7] = PAYLOAD, group[0], 0, group[1], group[2]

    def preset(self, register, data):
        for i in range(len(data) // 4):
            self.state[8 * register + i] = struct.unpack_from("<I", data, 4 * i)[0]

    def arguments(self):
        """The cross-thread data; its size is a multiple of a register."""
        launch, out = self.launch, bytearray(4096)
        size = 0
        shift = 1 if launch.args else 0
        pointers = launch.pointers()
        for x in self.payload["items"]:
            if x["what"] != "arg_type" or x["thread"]:
                continue
            at, n, kind = int(x.get("offset", 0)), int(x.get("size", 0)), x["value"]
            size = max(size, at + n)
            index = int(x.get("arg_index", -1))
            if kind == "arg_byvalue":
                start = int(x.get("source_offset", 0))
                data = launch.scalars.get(index, launch.args)
                out[at : at + n] = data[start : start + n].ljust(n, b"\0")
            elif kind == "buffer_address" or (kind == "arg_bypointer" and n):
                struct.pack_into("<Q", out, at, pointers[index - shift] if 0 <= index - shift < len(pointers) else 0)
            elif kind in ("local_size", "enqueued_local_size"):
                struct.pack_into("<3I", out, at, *launch.local)
            elif kind == "group_count":
                struct.pack_into("<3I", out, at, *launch.groups)
            elif kind == "global_size":
                struct.pack_into("<3I", out, at, *(a * b for a, b in zip(launch.local, launch.groups)))
            elif kind == "private_base_stateless":
                struct.pack_into("<Q", out, at, PRIVATE)
        return bytes(out), (size + 31) // 32 * 32

    def local_ids(self):
        lx, ly = self.launch.local[0], self.launch.local[1]
        each = self.payload["ids"] // 3
        out = b""
        for f in (lambda i: i % lx, lambda i: i // lx % ly, lambda i: i // (lx * ly)):
            out += b"".join(struct.pack("<H", f(i) & 0xFFFF) for i in range(each // 2))
        return out

    # ---- operands ------------------------------------------------------------------------------------------------------------------

    def element(self, at, kind):
        size = SIZE.get(kind, 4)
        v = self.state.get(at >> 2)
        if v is None:
            return None
        if size == 4:
            if kind == "f":
                return struct.unpack("<f", struct.pack("<I", v))[0]
            return signed(v) if kind == "d" else v
        if size == 8:
            high = self.state.get((at >> 2) + 1)
            if high is None:
                return None
            v |= high << 32
            return v - (1 << 64) if kind == "q" and v >> 63 else v
        if kind in ("hf", "bf"):
            return None
        bits = 8 * size
        v = v >> 8 * (at & 3) & ((1 << bits) - 1)
        return v - (1 << bits) if kind in ("b", "w") and v >> (bits - 1) else v

    def values(self, o, n):
        """A value for each channel, or one for all."""
        if o[0] == "i":
            return o[1]
        if o[0] == "whole flag":
            bits = self.flags.get(o[1], [None] * 32)[o[2] : o[2] + o[3]]
            return None if None in bits else sum(1 << i for i, b in enumerate(bits) if b)
        if o[0] != "r":
            return None
        at, kind, sign = o[1], o[2], o[3]
        out = [self.element(a, kind) for a in at]
        if sign:
            f = abs if sign == "a" else (lambda x: -x) if sign == "-" else (lambda x: ~x)
            out = [None if x is None or (sign == "~" and type(x) is float) else f(x) for x in out]
        return out[0] if len(out) == 1 else out

    def store(self, ins, o, values):
        if o[0] == "whole flag":
            on = self.lanes_on(ins)
            if on is not None and not on[0]:
                return
            bits = list(self.flags.get(o[1], [None] * 32))
            bits[o[2] : o[2] + o[3]] = [None if values is None else bool(values >> i & 1) for i in range(o[3])]
            self.flags[o[1]] = bits
        if o[0] != "r":
            return
        at, kind = o[1], o[2]
        size = SIZE.get(kind, 4)
        n = ins.width
        many = type(values) is list
        state, on = self.state, self.lanes_on(ins)
        for i in range(n):
            if on is not None and not on[i]:
                continue
            v = values[i] if many else values
            a = at[i] if len(at) > 1 else at[0]
            word = a >> 2
            if v is None or kind in ("hf", "bf", "df"):
                state[word] = None
                if size == 8:
                    state[word + 1] = None
                continue
            if kind == "f":
                try:
                    v = struct.unpack("<I", struct.pack("<f", float(v)))[0]
                except OverflowError:
                    v = None
                state[word] = v
                continue
            if type(v) is float:
                v = int(v) if math.isfinite(v) else 0
                if kind[0] == "u":
                    v = max(0, v)
            if size == 4:
                state[word] = v & MASK
            elif size == 8:
                state[word], state[word + 1] = v & MASK, v >> 32 & MASK
            else:
                bits, shift = (1 << 8 * size) - 1, 8 * (a & 3)
                old = state.get(word) or 0
                state[word] = old & ~(bits << shift) & MASK | (v & bits) << shift

    def lanes_on(self, ins):
        """Which channels are written: None for all."""
        is_all, flag, first = ins.guard
        if is_all and not flag or is_all and ins.op.startswith("sel"):
            return None
        on = [True] * ins.width if is_all else self.on[first : first + ins.width]
        if flag and not ins.op.startswith("sel"):
            p = self.flag(flag, first, ins.width)
            if p is not None:
                on = [a and b is not False for a, b in zip(on, p)]
        return on

    def flag(self, text, first, n):
        """A list of n bits, or None where one is not known."""
        name, _, suffix = text.lstrip("~").partition(".")
        sub, _, reduce = suffix.partition(".")
        bits = self.flags.get(name, [None] * 32)
        start = 16 * int(sub or 0) + (first if n < 32 else 0)
        out = bits[start % 32 : start % 32 + n]
        if reduce.startswith("any") or reduce.startswith("all"):
            known = [b for b in out if b is not None]
            if len(known) < len(out):
                return None
            v = any(known) if reduce.startswith("any") else all(known)
            out = [v] * n
        if any(b is None for b in out):
            return None
        return [not b for b in out] if text.startswith("~") else out

    def set_flag(self, ins, condition, bits):
        _, name, sub = condition
        first = ins.guard[2]
        start = (16 * sub + (first if ins.width < 32 else 0)) % 32
        old = self.flags.setdefault(name, [False] * 32)
        old = list(old)
        on = self.lanes_on(ins)
        many = type(bits) is list
        for i in range(ins.width):
            live = on is None or on[i]
            b = bits[i] if many else bits
            old[(start + i) % 32] = b if live else False
        self.flags[name] = old

    # ---- execution -----------------------------------------------------------------------------------------------------------------

    def step(self, ins):
        if self.waiting:
            self.wake(ins.index)
        if ins.kind == "control":
            return self.control(ins)
        is_all = ins.guard[0]
        first, n = ins.guard[2], ins.width
        if not is_all and not any(self.on[first : first + n]):
            self.clock.take(ins, None, False)
            return ins.index + 1
        addresses = None
        if ins.bytes:
            addresses = self.message(ins)
        elif ins.run is not None:
            ins.run(self, ins)
        else:
            self.forget(ins)
        self.clock.take(ins, addresses)
        return ins.index + 1

    def forget(self, ins):
        o = ins.operands[0] if ins.operands and isinstance(ins.operands[0], tuple) else None
        if o is not None and o[0] == "r":
            self.store(ins, o, None)
        if ins.kind == "matrix":
            for name in ins.dst:
                for i in range(8):
                    self.state[int(name[1:]) * 8 + i] = None
        c = ins.extra.get("condition") if isinstance(ins.extra, dict) else None
        if c and ins.op != "csel":  # whose condition chooses, and sets no flag
            self.set_flag(ins, c, None)

    def control(self, ins):
        self.clock.take(ins, None)
        base = ins.op.split(".")[0]
        if ins.mods == ("end",):
            return None
        after = ins.index + 1
        if base == "join":
            for i, w in enumerate(self.wait_at):
                if w is not None and w <= ins.index:
                    self.wait_at[i] = None
                    self.on[i] = True
            if not any(self.on):
                return self.jump(ins, ins.target) if ins.target is not None and ins.target > ins.index else after
            return after
        if base == "jmpi":
            p = self.flag(ins.guard[1], 0, 1) if ins.guard[1] else [True]
            if p is None:
                self.unknown += 1
                return after
            return self.jump(ins, ins.target) if p[0] and ins.target is not None else after
        if base == "goto" and len(ins.operands) >= 1:
            return self.go(ins, after)
        return self.structured(ins, base, after) if base in ("if", "else", "while", "break", "cont") else after

    def wake(self, at):
        """Channels that waited for the others here."""
        for i, w in enumerate(self.wait_at):
            if w == at:
                self.wait_at[i] = None
                self.on[i] = True
        self.waiting = any(w is not None for w in self.wait_at)

    def park(self, lanes, at):
        for i in lanes:
            self.on[i] = False
            self.wait_at[i] = at
        self.waiting = True

    def structured(self, ins, base, after):
        """if, else, endif, while and break, of which goto and join are the later form."""
        first, n = ins.guard[2], ins.width
        lanes = [first + i for i in range(n) if self.on[first + i]]
        p = self.flag(ins.guard[1], first, n) if ins.guard[1] else [True] * n
        if p is None:  # data decides: a branch is entered, a loop left
            self.unknown += 1
            p = [base == "if"] * n
        yes = [i for i in lanes if p[i - first]]
        no = [i for i in lanes if not p[i - first]]
        to, end = (ins.operands[0], ins.operands[-1]) if ins.operands else (after, after)
        if base == "if":
            self.park(no, to)
            return after if yes else self.jump(ins, to)
        if base == "else":
            self.park(lanes, end)
            return after if any(w == after for w in self.wait_at) else self.jump(ins, end)
        if base == "while":
            if not yes:
                return after
            self.park(no, after)
            return self.jump(ins, to)
        if base == "break":  # may name the loop's `while`: channels that leave the loop are behind it
            to, end = (x + 1 if self.code[x].op == "while" else x for x in (to, end))
        if base in ("break", "cont"):
            self.park(yes, end)
            return after if no else self.jump(ins, to)
        return after

    def jump(self, ins, target):
        self.clock.n_taken += ins.index
        return target

    def go(self, ins, after):
        """goto JIP UIP: channels with the predicate wait at UIP; goto.b: they go back to UIP, and the others wait at JIP."""
        first, n = ins.guard[2], ins.width
        waits, goes = (ins.operands[0], ins.operands[-1])
        p = self.flag(ins.guard[1], first, n) if ins.guard[1] else [True] * n
        if p is None:
            self.unknown += 1
            p = [False] * n
        if ins.op == "goto.b":
            taken = [self.on[first + i] and p[i] for i in range(n)]
            if not any(taken):
                return after
            for i in range(n):
                if self.on[first + i] and not p[i]:
                    self.park([first + i], waits)
            return self.jump(ins, goes)
        for i in range(n):
            if self.on[first + i] and p[i]:
                self.park([first + i], goes)
        if any(self.on):
            return after
        return self.jump(ins, waits)

    def block(self, ins):
        """Addresses of the words that a message moves for the whole thread; None: not known."""
        e, header = ins.extra, ins.extra["address"] * 8
        if e["wide"]:
            low, high = self.state.get(header), self.state.get(header + 1)
            at = None if low is None or high is None else low | high << 32
        else:
            at = self.state.get(header + 2)
            if at is not None and "aligned" not in e["text"]:
                at *= 16
            if at is not None and e["surface"] != 0xFE:
                argument = self.payload["surfaces"].get(e["surface"])
                at = None if argument is None else at + ((argument - (1 if self.launch.args else 0) + 1) << BUFFER_SHIFT)
        return None if at is None else [at + 4 * i for i in range(ins.whole // 4)]

    def message(self, ins):
        e, n, first = ins.extra, ins.width, ins.guard[2]
        text, base = e["text"], e["address"]
        self.place = None
        if base is None:
            return None
        on = [True] * n if ins.guard[0] else self.on[first : first + n]
        if ins.guard[1]:
            p = self.flag(ins.guard[1], first, n)
            if p is not None:
                on = [a and b for a, b in zip(on, p)]
        if ins.mods == ("block",):
            if e["surface"] == 0xFD or "aligned" in text and not e["wide"]:
                at = self.state.get(base * 8 + 2)
                if at is not None and "aligned" not in text:
                    at *= 16
                for i in range(e["read"] * 8):
                    self.state[e["dst"] * 8 + i] = None if at is None else self.memory.read(at + 4 * i, 4)
                if ins.kind == "constant":
                    return None
            elif e["dst"] is not None:
                for i in range(e["read"] * 8):
                    self.state[e["dst"] * 8 + i] = None
            return None if ins.kind == "spill" else self.block(ins)
        addresses, lanes = [], []
        for i in range(n):
            if e["wide"]:
                low, high = self.state.get(base * 8 + 2 * i), self.state.get(base * 8 + 2 * i + 1)
                a = None if low is None or high is None else low | high << 32
            else:
                a = self.state.get(base * 8 + i)
                if a is not None and e["surface"] != 0xFE:
                    argument = self.payload["surfaces"].get(e["surface"])
                    if argument is None:
                        a = None
                    else:
                        a += (argument - (1 if self.launch.args else 0) + 1) << BUFFER_SHIFT
            lanes.append(a)
            if on[i]:
                addresses.append(a)
        if ins.dst:
            values = [None] * n
            if ins.bytes == 4 and lanes and all(a is not None for a in addresses) and addresses:
                values = [None if a is None else self.load_words(a, 1)[0] for a in lanes]
            stride = (n + 7) // 8 * 8  # words of a component: channels that do not run keep what they had
            for i in range(n):
                if on[i]:
                    for word in range(i, e["read"] * 8, stride):
                        self.state[e["dst"] * 8 + word] = values[i] if word == i else None
        if any(a is None for a in addresses):
            return None
        return addresses
