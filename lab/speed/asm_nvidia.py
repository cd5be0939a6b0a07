"""Reads NVIDIA's machine code (SASS, as nvdisasm prints it). wave_nvidia.py executes it."""

import re

from machine import MASK, Instruction

LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
GUARD = re.compile(r"^@(!?)(U?P(?:\d+|T))\s+")
REGISTER = re.compile(r"^([-~|]*)(U?R(?:\d+|Z))((?:\.\w+)*)(\|?)$")
PREDICATE = re.compile(r"^(!?)(U?P(?:\d+|T))$")
CONSTANT = re.compile(r"^([-~|]*)c\[(0x[0-9a-f]+)\]\[(?:(U?R\d+)\+?-?)?(0x[0-9a-f]+)?\]\|?")
NUMBER = re.compile(r"^[-~]?(?:0x[0-9a-f]+|\d+)$")

KINDS = {
    "LDG": "load",
    "LD": "load",
    "STG": "store",
    "ST": "store",
    "RED": "store",
    "ATOMG": "store",
    "ATOM": "store",
    "LDS": "local_load",
    "LDSM": "local_load",
    "STS": "local_store",
    "ATOMS": "local_store",
    "LDL": "spill",
    "STL": "spill",
    "IDP": "dot",
    "HMMA": "matrix",
    "IMMA": "matrix",
    "FFMA": "fma",
    "FMUL": "fma",
    "FADD": "fma",
    "HFMA2": "half",
    "HADD2": "half",
    "HMUL2": "half",
    "I2F": "convert",
    "F2I": "convert",
    "F2F": "convert",
    "FRND": "convert",
    "I2FP": "pack",
    "F2FP": "pack",
    "MUFU": "special",
    "POPC": "convert",
    "FLO": "convert",
    "BREV": "convert",
    "BAR": "barrier",
    "SHFL": "shuffle",
    "IMAD": "mad",
    "S2R": "read",
    "S2UR": "read",
    "DADD": "double",
    "DMUL": "double",
    "DFMA": "double",
    "LDC": "constant",
    "ULDC": "uniform",
    "VOTE": "int",
}
CONTROL = {
    "BRA",
    "BRX",
    "JMP",
    "EXIT",
    "BSSY",
    "BSYNC",
    "WARPSYNC",
    "YIELD",
    "NOP",
    "CALL",
    "RET",
    "BREAK",
    "BMOV",
    "DEPBAR",
    "MEMBAR",
    "ERRBAR",
    "CCTL",
    "BPT",
    "KILL",
    "NANOSLEEP",
}


def split_operands(text):
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "[") - (c == "]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last else parts


def operand(text):
    """("r", name, sign) | ("p", name, is_not) | ("c", offset, register, sign) | ("i", number) | ("x", text) | ("m", [registers],
    offset, is_wide, scale)"""
    t = text.replace(".reuse", "")
    m = REGISTER.match(t)
    if m:
        return ("r", m.group(2), m.group(1))
    m = PREDICATE.match(t)
    if m:
        return ("p", m.group(2), m.group(1) == "!")
    m = CONSTANT.match(t)
    if m:
        return ("c", int(m.group(4) or "0", 16), m.group(3), m.group(1))
    if NUMBER.match(t):
        n = int(t.lstrip("-~"), 0)
        return ("i", (-n if t[0] == "-" else ~n if t[0] == "~" else n) & MASK)
    if "[" in t:
        inside = t[t.rindex("[") + 1 : t.rindex("]")]
        registers, offset, wide, scale = [], 0, True, 1
        for part in re.findall(r"[^+]+", inside):
            part = part.strip()
            m = re.match(r"^(U?R(?:\d+|Z))((?:\.\w+)*)$", part)
            if m:
                registers.append(m.group(1))
                wide = wide and ".U32" not in m.group(2)
                found = re.search(r"\.X(\d+)", m.group(2))
                scale = int(found.group(1)) if found else scale
            elif part:
                n = int(part.lstrip("-"), 0)
                offset += -n if part[0] == "-" else n
        return ("m", registers, offset, wide, scale)
    return ("x", t)


def width_of(mods):
    for m, n in (("128", 16), ("64", 8), ("U8", 1), ("S8", 1), ("U16", 2), ("S16", 2)):
        if m in mods:
            return n
    return 4


def next_register(name, i=1):
    head = name.rstrip("0123456789")
    return name if name.endswith("Z") else head + str(int(name[len(head) :]) + i)


def run_of(name, n):
    return [] if name.endswith("Z") else [next_register(name, i) for i in range(n)]


def fill(ins):
    """Kind, registers and work of an instruction whose operands are known."""
    base, mods = ins.op, ins.mods
    ins.kind = "control" if base in CONTROL else KINDS.get(base, "uniform" if base[0] == "U" or base == "R2UR" else "int")
    if ins.kind == "half" and "F32" in mods:
        ins.kind = "pack"
    memory = ins.kind in ("load", "store", "local_load", "local_store", "spill")
    if memory:
        ins.bytes = 16 if base == "LDSM" else width_of(mods)
    is_global = ins.kind in ("load", "store")
    ins.work = {"FFMA": 1, "HFMA2": 2, "IDP": 4}.get(base, 0)
    if base == "HFMA2" and "MMA" in mods:
        ins.work = 0
    if ins.kind == "matrix":
        shape = next((m for m in mods if m.isdigit() and len(m) >= 3), "1688")
        m, n, k = {"1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32), "884": (8, 8, 4), "8816": (8, 8, 16)}.get(
            shape, (16, 8, 16)
        )
        ins.work, ins.width = m * n * k / 32.0, k
    dst, src = [], []
    is_store = base in ("STG", "STS", "ST", "STL", "RED")
    for i, o in enumerate(ins.operands):
        if o[0] == "r":
            if i == 0 and not is_store and ins.kind != "control":
                n = max(1, ins.bytes // 4) if memory else 4 if ins.kind == "matrix" else 2 if "WIDE" in mods or "64" in mods else 1
                dst += run_of(o[1], n)
            else:
                n = max(1, ins.bytes // 4) if is_store else 1
                if ins.kind == "matrix":
                    n = 4 if i == 3 else (4 if i == 1 and ins.width >= 16 else 2)
                elif "WIDE" in mods and i == len(ins.operands) - 1:
                    n = 2
                src += run_of(o[1], n)
        elif o[0] == "m":
            for r in o[1]:
                src += run_of(r, 2 if is_global and o[3] else 1)
        elif o[0] == "p":
            if i <= 2 and not o[2] and ins.kind != "control" and all(x[0] in "rp" for x in ins.operands[:i]) and is_output(ins, i):
                dst += [] if o[1].endswith("T") else [o[1]]
            elif not o[1].endswith("T"):
                src.append(o[1])
        elif o[0] == "c" and o[2]:
            src.append(o[2])
    if ins.guard and not ins.guard[0].endswith("T"):
        src.append(ins.guard[0])
    ins.dst, ins.src = tuple(dst), tuple(src)


def is_output(ins, i):
    """Whether the predicate at place i is written: compares begin with two of them, sums may have them behind the result."""
    if ins.op in ("ISETP", "UISETP", "FSETP", "PLOP3", "UPLOP3", "HSETP2", "DSETP"):
        return i < 2
    if ins.op in ("VOTE", "VOTEU"):
        return i < len(ins.operands) - 1
    if ins.op in ("IADD3", "UIADD3", "LEA", "ULEA", "IMAD", "UIMAD", "LOP3", "ULOP3"):
        return i < (3 if ins.op in ("IADD3", "UIADD3") else 2) and i < len(ins.operands) - (2 if ins.op in ("LOP3", "ULOP3") else 1)
    return i == 0


def parse(text, kernel):
    """The kernel's instructions, and those of the functions that it calls, which stand behind it."""
    code, labels, inside, at = [], {}, False, []
    for line in text.splitlines():
        s = line.strip()
        if s.startswith(".text."):
            inside = s == f".text.{kernel}:"
            continue
        if not inside:
            continue
        if s.startswith((".L_x_", "$")) and s.endswith(":"):
            at.append(s[:-1])
            continue
        m = LINE.match(line)
        if not m:
            continue
        t = m.group(2)
        ins = Instruction(t, len(code))
        g = GUARD.match(t)
        if g:
            ins.guard = (g.group(2), g.group(1) == "!")
            t = t[g.end() :]
        name, _, rest = t.partition(" ")
        ins.op, *mods = name.split(".")
        ins.mods = tuple(mods)
        found = re.search(r"`\((\.L_x_\d+|\$\S+)\)", rest)
        ins.extra = found.group(1) if found else None
        ins.operands = tuple(operand(x) for x in split_operands(re.sub(r"`\([^)]*\)", "", rest)))
        fill(ins)
        for label in at:
            labels[label] = len(code)
        at = []
        code.append(ins)
    for ins in code:
        if ins.extra:
            ins.target = labels.get(ins.extra)
    return code
