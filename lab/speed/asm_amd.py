"""Reads AMD's machine code (as LLVM writes it). wave_amd.py and execute_amd.py execute it."""

import re
import struct

from machine import MASK, Instruction

FULL64 = 0xFFFFFFFFFFFFFFFF
WIDTHS = {
    "b32": 4,
    "b64": 8,
    "b96": 12,
    "b128": 16,
    "u8": 1,
    "i8": 1,
    "u16": 2,
    "i16": 2,
    "b16": 2,
    "b8": 1,
    "dword": 4,
    "dwordx2": 8,
    "dwordx3": 12,
    "dwordx4": 16,
    "dwordx8": 32,
    "dwordx16": 64,
    "b256": 32,
    "b512": 64,
    "ubyte": 1,
    "sbyte": 1,
    "ushort": 2,
    "sshort": 2,
    "short": 2,
    "byte": 1,
    "d16": 2,
}
NO_COST = {
    "s_waitcnt",
    "s_delay_alu",
    "s_clause",
    "s_nop",
    "s_inst_prefetch",
    "s_code_end",
    "s_set_inst_prefetch_distance",
    "s_waitcnt_depctr",
    "s_sleep",
    "s_setprio",
    "s_waitcnt_vscnt",
    "s_waitcnt_lgkmcnt",
    "s_waitcnt_vmcnt",
    "s_waitcnt_expcnt",
    "buffer_gl0_inv",
    "buffer_gl1_inv",
    "buffer_wbinvl1",
    "buffer_wbl2",
    "buffer_invl2",
    "s_sendmsg",
    "s_setreg_imm32_b32",
    "s_setreg_b32",
    "s_icache_inv",
    "s_dcache_inv",
    "s_version",
    "s_round_mode",
    "s_denorm_mode",
    "buffer_wbinvl1_vol",
}
OPERAND = re.compile(r"^(-|\|)?([svat])(?:(\d+)|\[(\d+):(\d+)\])\|?(?:\.[lh])?$")
NAMED = {
    "vcc": ("vcc_lo", 2),
    "vcc_lo": ("vcc_lo", 1),
    "vcc_hi": ("vcc_hi", 1),
    "exec": ("exec_lo", 2),
    "exec_lo": ("exec_lo", 1),
    "exec_hi": ("exec_hi", 1),
    "m0": ("m0", 1),
    "scc": ("scc", 1),
    "null": ("null", 1),
    "flat_scratch": ("flat_scratch_lo", 2),
    "flat_scratch_lo": ("flat_scratch_lo", 1),
    "flat_scratch_hi": ("flat_scratch_hi", 1),
}
PAIR = {"vcc_lo": "vcc_hi", "exec_lo": "exec_hi", "flat_scratch_lo": "flat_scratch_hi", "null": "null"}


def next_name(name, i=1):
    if i == 0:
        return name
    return PAIR[name] if name in PAIR else name[0] + str(int(name[1:]) + i)


def operand(text):
    """("r", first register, how many, sign) | ("i", bits) | ("x", text)"""
    t = text.strip()
    m = OPERAND.match(t)
    if m:
        kind, one, first, last = m.group(2), m.group(3), m.group(4), m.group(5)
        return ("r", kind + (one or first), 1 if one else int(last) - int(first) + 1, m.group(1) or "")
    if t in NAMED:
        return ("r",) + NAMED[t] + ("",)
    try:
        return ("i", int(t, 0) & MASK if int(t, 0) >= 0 else int(t, 0) & FULL64)
    except ValueError:
        pass
    try:
        return ("i", struct.unpack("<I", struct.pack("<f", float(t)))[0])
    except (ValueError, OverflowError):
        return ("x", t)


def kind_of(op):
    if op.startswith(("global_load", "flat_load", "buffer_load")):
        return "load"
    if op.startswith(("global_store", "flat_store", "buffer_store", "global_atomic", "flat_atomic")):
        return "store"
    if op.startswith("scratch_"):
        return "spill"
    if op.startswith("ds_"):
        if "permute" in op or "swizzle" in op:
            return "shuffle"
        return "local_load" if "load" in op or "read" in op else "local_store"
    if op.startswith(("s_load", "s_buffer_load")):
        return "constant"
    if op == "s_barrier":
        return "barrier"
    if op in NO_COST or op.startswith(("s_waitcnt", "buffer_gl", "buffer_inv")):
        return "wait"
    if op.startswith(("s_cbranch", "s_branch", "s_endpgm", "s_setpc", "s_swappc")):
        return "control"
    if op.startswith("s_"):
        return "scalar"
    if op.startswith(("v_wmma", "v_mfma")):
        return "matrix"
    if op.startswith("v_dot"):
        return "dot"
    if "_f64" in op:
        return "double"
    if re.match(r"v_(dual_)?(pk_)?(fma|fmac|mad_f|mac_f|fmaak|fmamk|mad_mix)", op) or re.match(
        r"v_(dual_)?(pk_)?(add|sub|mul|subrev)_f", op
    ):
        return "half" if "pk_" in op else "fma"
    if op.startswith("v_cvt"):
        return "convert"
    if re.match(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_", op):
        return "special"
    if op.startswith(("v_mul_lo_u32", "v_mul_hi", "v_mad_u64", "v_mad_i64", "v_mul_lo_i32")):
        return "multiply"
    return "int"


def work_of(op):
    if "dot4" in op:
        return 4
    if "dot8" in op:
        return 8
    if "dot2" in op:
        return 2
    if re.match(r"v_(dual_)?(fma|fmac|mad_f|mac_f|fmaak|fmamk|mad_mix)", op):
        return 1
    return 2 if op.startswith(("v_pk_fma",)) else 0


def matrix_work(op, lanes):
    m = re.search(r"(\d+)x(\d+)x(\d+)", op)
    return int(m.group(1)) * int(m.group(2)) * int(m.group(3)) / lanes if m else 0


def fill(ins, lanes):
    name = ins.op
    ins.kind = kind_of(name)
    ins.work = matrix_work(name, lanes) if ins.kind == "matrix" else work_of(name)
    if re.search(r"(lshlrev_b64|lshrrev_b64|ashrrev_i64|lshl_add_u64)", name):
        ins.width = 64
    o = ins.operands
    if ins.kind in ("load", "store", "spill", "local_load", "local_store", "constant"):
        parts = [x for x in name.split("_") if x in WIDTHS]
        ins.bytes = WIDTHS[parts[-1]] if parts else 4
        if "2addr" in name or "read2" in name or "write2" in name:
            ins.bytes *= 2
    is_store = "store" in name or name.startswith(("ds_write",)) or (name.startswith("ds_") and ins.kind == "local_store")
    dst, src = [], []
    for i, x in enumerate(o):
        if x[0] != "r":
            continue
        names = [next_name(x[1], j) for j in range(x[2])]
        if i == 0 and not is_store and not name.startswith(("s_cmp", "s_bitcmp", "s_cbranch", "v_cmpx", "v_cmp_")):
            dst += names
            if re.match(r"v_(dual_)?(pk_)?(fmac|mac|dot\dc)", name):
                src += names
        elif i == 0 and name.startswith("v_cmp_"):
            dst += names
        elif i == 1 and re.match(r"v_(add|sub|subrev|addc|subb|subbrev)_(co_ci_|co_)?u32|v_mad_[ui]64", name) and len(o) > 3:
            dst += names
        else:
            src += names
    if name.startswith("v_cmpx"):
        dst += ["exec_lo", "exec_hi"]
        src = [n for x in o if x[0] == "r" for n in [next_name(x[1], j) for j in range(x[2])] if n[0] in "sv" and n not in ("vcc_lo",)]
    if name.startswith(("s_cmp", "s_bitcmp")) or (
        ins.kind == "scalar" and re.match(r"s_(add|sub|and|or|xor|lsh|ash|bfe|andn2|min|max|nor|nand)", name)
    ):
        dst.append("scc")
    if name.startswith(("s_cselect", "s_addc", "s_subb", "s_cbranch_scc")):
        src.append("scc")
    if name.startswith("s_cbranch_vcc"):
        src.append("vcc_lo")
    if name.startswith("s_cbranch_exec"):
        src.append("exec_lo")
    ins.dst, ins.src = tuple(dst), tuple(src)


def base_of(op):
    return re.sub(r"_(e32|e64|dpp|sdwa|e64_dpp)$", "", op)


def make(text, index, lanes):
    ins = Instruction(text, index)
    op, _, rest = text.partition(" ")
    ins.extra = {"offset": 0}
    for m in re.finditer(r"\b(offset[01]?):(-?\w+)", rest):
        ins.extra[m.group(1)] = int(m.group(2), 0)
    ins.mods = tuple(re.findall(r"\b(quad_perm|row_\w+|dst_sel:\w+|src0_sel:\w+|src1_sel:\w+|op_sel\S*|wave_\w+|neg_\w+|clamp)", rest))
    rest = re.split(
        r"\s+(?:offset[01]?:|glc|dlc|slc|quad_perm|row_|op_sel|dst_sel|src\d_sel|offen|bound_ctrl|clamp|neg_|wave_|mul:|div:|nt|sc\d"
        r"|gds|idxen|dst_unused|lds)",
        rest,
    )[0]
    ins.op = base_of(op)
    ins.operands = tuple(operand(x) for x in re.split(r",\s*(?![^\[]*\])", rest) if x.strip())
    fill(ins, lanes)
    if any(m.startswith(("quad_perm", "row_", "wave_")) for m in ins.mods) or ("_sel" in " ".join(ins.mods) and ins.op != "v_pk_mov_b32"):
        ins.extra["moves lanes"] = True
    return ins


def parse(text, kernel, lanes):
    code, labels, inside = [], {}, False
    for line in text.splitlines():
        s = line.split(";")[0].strip()
        if not s:
            continue
        if s == kernel + ":":
            inside = True
            continue
        if not inside:
            continue
        if s.startswith(".Lfunc_end") or s.startswith(".section"):
            break
        m = re.match(r"^(\.LBB\d+_\d+):", s)
        if m:
            labels[m.group(1)] = len(code)
            continue
        if s.startswith(".") or s.endswith(":"):
            continue
        if "::" in s:
            parts = [p.strip() for p in s.split("::")]
            first, second = (make(p.replace("v_dual_", "v_", 1), len(code), lanes) for p in parts)
            ins = Instruction(s, len(code))
            ins.op, ins.kind = "v_dual", first.kind if first.work >= second.work else second.kind
            ins.dst, ins.src = first.dst + second.dst, first.src + second.src
            ins.work, ins.operands = first.work + second.work, (first, second)
            code.append(ins)
            continue
        code.append(make(s, len(code), lanes))
    for ins in code:
        if ins.op.startswith(("s_cbranch", "s_branch")) and ins.operands:
            ins.target = labels.get(ins.operands[-1][1])
    return code
