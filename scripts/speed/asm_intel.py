"""Intel's machine code (as IGC writes it): reading it, and a thread that executes it.

A thread has 128 registers of 32 bytes; here their 1024 words of four bytes are the state, by number. An instruction works on 1
to 32 channels, whose places in a register are a region: r6.4<1;1,0>:uw begins at word 4, each channel two bytes on."""
import math
import re
import struct

from machine import MASK, Instruction, Memory, Stop, Wave, buffer_of, known_words, signed, BUFFER_SHIFT

SIZE = {"b": 1, "ub": 1, "w": 2, "uw": 2, "hf": 2, "bf": 2, "d": 4, "ud": 4, "f": 4, "q": 8, "uq": 8, "df": 8, "v": 4, "uv": 4, "vf": 4}
ACC = 2048              # the accumulators' words
PAYLOAD = 0x10000       # address of the arguments
PRIVATE = 0x7200_0000_0000

LINE = re.compile(r"^(?:\((W)?&?(~?f\d\.\d(?:\.\w+)?)?\))?\s*([a-z]\w*(?:\.[\w()&|~^]+)?)\s*(?:\((\d+)\|M(\d+)\))?\s*(.*)$")
REGISTER = re.compile(r"^(-|~)?(?:\(abs\))?(r|acc)(\d+)\.(\d+)(?:<(\d+)(?:;(\d+)(?:,(\d+))?)?>)?:(\w+)$")
FLAG = re.compile(r"^(?:\((\w+)\))?(f\d)\.(\d)$")
IMMEDIATE = re.compile(r"^(-?(?:0x[0-9A-Fa-f]+|[\d.]+(?:e[-+]?\d+)?)):(\w+)$")


def channels(m, n, is_ternary, is_dst):
    """(file offset in bytes of each channel) of a register operand, or of one for a scalar."""
    size = SIZE.get(m.group(8), 4)
    start = (ACC * 4 if m.group(2) == "acc" else 0) + int(m.group(3)) * 32 + int(m.group(4)) * size
    v, w, h = m.group(5), m.group(6), m.group(7)
    if is_dst or w is None:
        step = int(v) if v is not None else 1
        return [start + i * step * size for i in range(n)] if step or is_dst else [start]
    if h is None:  # <V;H> of three sources
        v, h = int(v), int(w)
        step = h if h else v
        return [start] if not step else [start + i * step * size for i in range(n)]
    v, w, h = int(v), int(w), int(h)
    if v == 0 and h == 0:
        return [start]
    return [start + (i // w * v + i % w * h) * size for i in range(n)]


def operand(text, n, is_ternary=False, is_dst=False):
    """("r", byte offsets, type, sign, registers) | ("i", value, type) | ("f", flag, bit) | ("x", text)"""
    m = REGISTER.match(text)
    if m:
        at = channels(m, n, is_ternary, is_dst)
        size = SIZE.get(m.group(8), 4)
        registers = tuple(sorted({(m.group(2) if m.group(2) == "acc" else "r") + str(a // 32) for b in at for a in (b, b + size - 1)}))
        sign = "a" if "(abs)" in text else m.group(1) or ""
        return ("r", at, m.group(8), sign, registers)
    m = IMMEDIATE.match(text)
    if m:
        kind = m.group(2)
        if kind == "f" and not m.group(1).startswith("0x"):
            return ("i", float(m.group(1)), kind)
        x = int(m.group(1), 0) if "." not in m.group(1) else 0
        if kind == "f":
            return ("i", struct.unpack("<f", struct.pack("<I", x & MASK))[0], kind)
        if kind in ("v", "uv"):
            nibbles = [x >> 4 * i & 15 for i in range(8)]
            return ("i", [k - 16 if kind == "v" and k & 8 else k for k in nibbles] * (max(n, 8) // 8), kind)
        if kind == "w" and x > 0x7FFF:
            x -= 0x10000
        if kind == "d" and x > 0x7FFFFFFF:
            x -= 1 << 32
        return ("i", x, kind)
    m = FLAG.match(text)
    if m:
        return ("f", m.group(2), int(m.group(3)), m.group(1))
    return ("x", text)


SPLIT = re.compile(r"\s+")


def send_of(ins, rest, comment):
    """Of a message: what it does, and how many bytes each channel moves."""
    m = re.search(r"wr:(\d+)h?\+(\d+), rd:(\d+)(?:;\s*(.*?))?(?:\s*//|$)", comment)
    words = [w for w in SPLIT.split(re.sub(r"\{[^}]*\}", "", rest)) if w]
    n_address, n_data, n_read, text = (int(m.group(1)), int(m.group(2)), int(m.group(3)), m.group(4) or "") if m else (0, 0, 0, "")
    descriptor = int(words[4], 16) if len(words) > 4 and words[4].startswith("0x") else 0
    first = [int(x[1:].split(":")[0].split(".")[0]) if x[0] == "r" and x[1].isdigit() else None for x in words[:3]]
    ins.extra = {"surface": descriptor & 255, "address": first[1], "text": text, "dst": first[0], "wide": "a64" in text, "read": n_read}
    block = re.search(r"block (?:read|write) x(\d+)", text)
    if "end of thread" in text or "EOT" in rest:
        ins.kind = "control"
        ins.mods = ("end",)
    elif "barrier" in text:
        ins.kind = "barrier"
    elif "fence" in text or not text:
        ins.kind = "wait"
    else:
        is_local = descriptor & 255 == 0xFE
        is_read = n_read > 0
        ins.kind = ("local_" if is_local else "") + ("load" if is_read else "store")
        if "scratch" in text:
            ins.kind = "spill"
        width = {"with xyzw": 16, "with xy": 8, "with xz": 8, "with xyz": 12, "with x": 4, "16b": 2, "8b": 1, "32b": 4}
        ins.bytes = next((width[k] for k in ("with xyzw", "with xyz", "with xy", "with xz", "with x", "16b", "8b", "32b") if k in text), 0)
        if block:
            ins.bytes = int(block.group(1)) * (32 if "hword" in text else 16)
            ins.mods = ("block",)
        elif not ins.bytes:
            ins.bytes = max(4, (n_read or n_data) * 32 // max(1, ins.width))
        if block and descriptor & 255 == 0xFD:
            ins.kind = "constant"
    if ins.kind in ("wait", "barrier"):
        ins.bytes = 0
    ins.dst = tuple(f"r{first[0] + i}" for i in range(max(1, n_read))) if n_read and first[0] is not None else ()
    src = [f"r{first[1] + i}" for i in range(n_address)] if first[1] is not None else []
    if first[2] is not None:
        src += [f"r{first[2] + i}" for i in range(n_data)]
    ins.src = tuple(src)


FLOATS = ("f", "hf", "bf")
CONTROL = {"goto", "join", "jmpi", "if", "else", "endif", "while", "break", "ret", "call", "nop", "halt", "cont", "brc", "brd"}


def kind_of(ins, types):
    op = ins.op.split(".")[0]
    is_float = any(t in FLOATS for t in types)
    if op in CONTROL:
        return "control"
    if op == "sync":
        return "wait"
    if op == "dp4a":
        return "dot"
    if op in ("dpas", "dpasw"):
        return "matrix"
    if op == "math":
        return "special"
    if op in ("rndz", "rndd", "rndu", "rnde", "frc"):
        return "convert"
    if op == "mov":
        return "convert" if is_float and len(set(types)) > 1 else "int"
    if op in ("mul", "mach", "macl") and not is_float:
        return "multiply"
    if op in ("mad", "mul", "add", "mac") and is_float:
        return "fma"
    return "mad" if op == "mad" else "int"


def parse(text, kernel):
    """The kernel's instructions; code.payload is what //ze lines say of it."""
    code, labels, waiting, inside = Code(), {}, [], False
    code.payload = payload_of(text, kernel)
    for line in text.splitlines():
        if line.startswith("//ze"):
            continue
        m = re.match(r'^//\.kernel "?([^"\s]+)', line)
        if m:
            inside = m.group(1) == kernel
            continue
        if not inside or line.startswith("//"):
            continue
        body, _, comment = line.partition("//")
        s = body.strip()
        if not s:
            continue
        m = re.match(r"^([A-Za-z_]\w*):$", s)
        if m:
            waiting.append(m.group(1))
            continue
        m = LINE.match(s)
        if not m:
            continue
        ins = Instruction(s, len(code))
        ins.op, ins.width = m.group(3), int(m.group(4) or 1)
        is_all, flag = m.group(1) == "W", m.group(2)
        ins.guard = (is_all, flag, int(m.group(5) or 0))
        rest = m.group(6)
        for label in waiting:
            labels[label] = len(code)
        waiting = []
        base = ins.op.split(".")[0]
        if base in ("send", "sends", "sendc"):
            send_of(ins, rest, comment)
        elif base in CONTROL:
            ins.kind = "control"
            ins.extra = [w for w in SPLIT.split(re.sub(r"\{[^}]*\}", "", rest)) if w]
            ins.src = (flag.lstrip("~").split(".")[0],) if flag else ()
        else:
            fill(ins, rest, flag)
        ins.run = getattr(Thread, "do_" + base, None)
        code.append(ins)
    for ins in code:
        if ins.kind == "control" and isinstance(ins.extra, list):
            places = [labels[w] for w in ins.extra if w in labels]
            ins.operands = tuple(places)
            ins.target = places[-1] if places else None
    return code


def fill(ins, rest, flag):
    has_acc = "AccWrEn" in rest
    words = [w for w in SPLIT.split(re.sub(r"\{[^}]*\}", "", rest)) if w]
    condition = None
    while words and words[0].startswith("(") and not words[0].startswith("(abs)"):
        m = FLAG.match(words[0])
        if m:
            condition = (m.group(1), m.group(2), int(m.group(3)))
        words.pop(0)
    base = ins.op.split(".")[0]
    ternary = base in ("mad", "add3", "bfn", "dp4a", "bfe", "bfi2", "madm", "csel", "dpas", "dpasw")
    dst = operand(words[0], ins.width, ternary, True) if words else ("x", "")
    sources = [operand(w, ins.width, ternary) for w in words[1:]]
    ins.operands = (dst,) + tuple(sources)
    ins.extra = {"condition": condition, "acc": has_acc, "sat": "(sat)" in rest}
    types = [o[2] for o in ins.operands if o[0] in ("r", "i")]
    ins.kind = kind_of(ins, types)
    if base in ("dpas", "dpasw"):
        k = 32 if types and any(t in ("b", "ub", "s8", "u8") for t in types) else 16
        repeat = int(ins.op.rsplit("x", 1)[1]) if "x" in ins.op else 8
        ins.mods = ("bytes",) if k == 32 else ("halves",)
        ins.work = repeat * k  # of a channel
    else:
        ins.work = 4 if base == "dp4a" else 1 if base == "mad" and ins.kind == "fma" else 0
    names = list(dst[4]) if dst[0] == "r" else []
    if base in ("dpas", "dpasw") and dst[0] == "r":
        first = int(dst[4][0][1:])
        names = [f"r{first + i}" for i in range(8)]
    if condition:
        names.append(condition[1])
    if has_acc or base in ("addc", "subb"):
        names.append("acc256")
    ins.dst = tuple(names)
    src = [r for o in sources if o[0] == "r" for r in o[4]]
    if flag:
        src.append(flag.lstrip("~").split(".")[0])
    if base == "mach":
        src.append("acc256")
    ins.src = tuple(src)


class Code(list):
    payload = None


def payload_of(text, kernel):
    """{"items": [(type, offset, size, argument, source offset)], "surfaces": {index: argument}, "ids": bytes of local ids}"""
    out, inside, item, thread = {"items": [], "surfaces": {}, "ids": 0, "inline": 0}, False, None, False
    for line in text.splitlines():
        if not line.startswith("//ze"):
            continue
        s = line[4:].strip()
        if s.startswith("kernels_misc_info"):
            break
        m = re.match(r"- name:\s+(\S+)", s)
        if m:
            inside, thread = m.group(1) == kernel, False
            continue
        if not inside:
            continue
        if s.startswith("per_thread_payload_arguments"):
            thread = True
        if s.startswith("inline_data_payload_size"):
            out["inline"] = int(s.split(":")[1])
        m = re.match(r"- (arg_type|bti_value):\s+(\S+)", s)
        if m:
            item = {"what": m.group(1), "value": m.group(2), "thread": thread}
            out["items"].append(item)
            continue
        m = re.match(r"(\w+):\s+(\S+)$", s)
        if m and item is not None:
            item[m.group(1)] = m.group(2)
    for x in [i for i in out["items"] if i["what"] == "bti_value"]:
        out["surfaces"][int(x["value"])] = int(x.get("arg_index", 0))
    out["ids"] = sum(int(x.get("size", 0)) for x in out["items"] if x["thread"] and x["what"] == "arg_type")
    return out


class Thread(Wave):
    def __init__(self, code, launch, clock, lanes, group=(0, 0, 0)):
        super().__init__(code, lanes, clock)
        self.words = known_words(launch)
        self.memory = Memory()
        self.launch = launch
        self.payload = code.payload
        self.flags = {}
        self.wait_at = [None] * 32      # where a channel waits for the others
        n = min(lanes, launch.items)
        self.on = [i < n for i in range(32)]
        self.everything = list(self.on)
        self.place = None
        data, size = self.arguments()
        inline = self.payload["inline"]
        for i in range(min(inline, len(data)) // 4):
            self.state[8 + i] = struct.unpack_from("<I", data, 4 * i)[0]
        self.memory.add(PAYLOAD, data[inline:size] + self.local_ids())
        for i in range(8):
            self.state[i] = 0
        self.state[0], self.state[1], self.state[2], self.state[6], self.state[7] = PAYLOAD, group[0], 0, group[1], group[2]

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
                out[at:at + n] = data[start:start + n].ljust(n, b"\0")
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
        if o[0] != "r":
            return None
        at, kind, sign = o[1], o[2], o[3]
        out = [self.element(a, kind) for a in at]
        if sign:
            f = abs if sign == "a" else (lambda x: -x) if sign == "-" else (lambda x: ~x)
            out = [None if x is None or (sign == "~" and type(x) is float) else f(x) for x in out]
        return out[0] if len(out) == 1 else out

    def store(self, ins, o, values):
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
        on = [True] * ins.width if is_all else self.on[first:first + ins.width]
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
        out = bits[start % 32:start % 32 + n]
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
        if ins.kind == "control":
            return self.control(ins)
        is_all = ins.guard[0]
        first, n = ins.guard[2], ins.width
        if not is_all and not any(self.on[first:first + n]):
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
        if c:
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
                    self.on[first + i] = False
                    self.wait_at[first + i] = waits
            return self.jump(ins, goes)
        for i in range(n):
            if self.on[first + i] and p[i]:
                self.on[first + i] = False
                self.wait_at[first + i] = goes
        if any(self.on):
            return after
        return self.jump(ins, waits)

    def message(self, ins):
        e, n, first = ins.extra, ins.width, ins.guard[2]
        text, base = e["text"], e["address"]
        self.place = None
        if base is None:
            return None
        on = [True] * n if ins.guard[0] else self.on[first:first + n]
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
            if ins.kind == "spill":
                return [i for i in range(0, ins.bytes, 4)] and None
            return None
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
            for i in range(e["read"] * 8):
                self.state[e["dst"] * 8 + i] = None
            for i in range(n):
                if values[i] is not None:
                    self.state[e["dst"] * 8 + i] = values[i]
        if any(a is None for a in addresses):
            return None
        return addresses

    # ---- arithmetic ----------------------------------------------------------------------------------------------------------------

    def apply(self, ins, f, n_sources):
        """f of the sources, channel by channel; conditions are set."""
        o, n = ins.operands, ins.width
        sources = [self.values(x, n) for x in o[1:1 + n_sources]]
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
            bits = [None if x is None else compare(view(x), 0) for x in result] if type(result) is list else None if result is None else compare(view(result), 0)
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
        expression = ins.op[4:].strip("()")
        self.apply(ins, eval("lambda s0, s1, s2: " + expression) if re.fullmatch(r"[s012&|^~()]+", expression) else (lambda a, b, c: None), 3)

    def do_math(self, ins):
        if ins.op == "math.inv":
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


CONDITION = {"lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b,
             "ne": lambda a, b: a != b, "ze": lambda a, b: a == 0, "nz": lambda a, b: a != 0, "l": lambda a, b: a < b, "g": lambda a, b: a > b}
