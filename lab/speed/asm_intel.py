"""Reads Intel's machine code (as IGC writes it). wave_intel.py executes it.

A thread has 128 registers of 32 bytes; here their 1024 words of four bytes are the state, by number. An instruction works on 1
to 32 channels, whose places in a register are a region: r6.4<1;1,0>:uw begins at word 4, each channel two bytes on."""

import re
import struct

from machine import MASK, Instruction

SIZE = {"b": 1, "ub": 1, "w": 2, "uw": 2, "hf": 2, "bf": 2, "d": 4, "ud": 4, "f": 4, "q": 8, "uq": 8, "df": 8, "v": 4, "uv": 4, "vf": 4}
ACC = 2048  # the accumulators' words

LINE = re.compile(r"^(?:\((W)?&?(~?f\d\.\d(?:\.\w+)?)?\))?\s*([a-z]\w*(?:\.[\w()&|~^]+)?)\s*(?:\((\d+)\|M(\d+)\))?\s*(.*)$")
REGISTER = re.compile(r"^(-|~)?(?:\(abs\))?(r|acc)(\d+)\.(\d+)(?:<(\d+)(?:;(\d+)(?:,(\d+))?)?>)?:(\w+)$")
FLAG_VALUE = re.compile(r"^(f\d)\.(\d)(?:<[\d;,]+>)?:(uw|ud)$")
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
    """("r", byte offsets, type, sign, registers) | ("i", value, type) | ("f", flag, bit) | ("whole flag", flag, first bit, bits) | ("x", text)"""
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
    m = FLAG_VALUE.match(text)
    if m:
        return ("whole flag", m.group(1), 16 * int(m.group(2)), 8 * SIZE[m.group(3)])
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
            ins.whole = int(block.group(1)) * (32 if "hword" in text else 16)
            ins.bytes = 4  # addresses are those of its words
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
        code.append(ins)
    for ins in code:
        if ins.kind == "control" and isinstance(ins.extra, list):
            places = [labels[w] for w in ins.extra if w in labels]
            ins.operands = tuple(places)
            ins.target = (places[0] if ins.op == "while" else places[-1]) if places else None
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
    if base == "csel":
        condition = None  # it chooses by it, but writes no flag
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
