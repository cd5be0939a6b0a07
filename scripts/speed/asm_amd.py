"""AMD's machine code (as LLVM writes it): reading it, and a wave that executes it."""
import re
import struct

from machine import MASK, Instruction, Memory, Wave, known_words, lift1, lift2, lift3, low, signed

FULL64 = 0xFFFFFFFFFFFFFFFF
KERNARG, PACKET = 0x7000_0000_0000, 0x7100_0000_0000  # where the arguments and the launch's packet are
WIDTHS = {"b32": 4, "b64": 8, "b96": 12, "b128": 16, "u8": 1, "i8": 1, "u16": 2, "i16": 2, "b16": 2, "b8": 1, "dword": 4, "dwordx2": 8,
          "dwordx3": 12, "dwordx4": 16, "dwordx8": 32, "dwordx16": 64, "b256": 32, "b512": 64, "ubyte": 1, "sbyte": 1, "ushort": 2,
          "sshort": 2, "short": 2, "byte": 1, "d16": 2}
NO_COST = {"s_waitcnt", "s_delay_alu", "s_clause", "s_nop", "s_inst_prefetch", "s_code_end", "s_set_inst_prefetch_distance",
           "s_waitcnt_depctr", "s_sleep", "s_setprio", "s_waitcnt_vscnt", "s_waitcnt_lgkmcnt", "s_waitcnt_vmcnt", "s_waitcnt_expcnt",
           "buffer_gl0_inv", "buffer_gl1_inv", "buffer_wbinvl1", "buffer_wbl2", "buffer_invl2", "s_sendmsg", "s_setreg_imm32_b32",
           "s_setreg_b32", "s_icache_inv", "s_dcache_inv", "s_version", "s_round_mode", "s_denorm_mode", "buffer_wbinvl1_vol"}
OPERAND = re.compile(r"^(-|\|)?([svat])(?:(\d+)|\[(\d+):(\d+)\])\|?(?:\.[lh])?$")
NAMED = {"vcc": ("vcc_lo", 2), "vcc_lo": ("vcc_lo", 1), "vcc_hi": ("vcc_hi", 1), "exec": ("exec_lo", 2), "exec_lo": ("exec_lo", 1),
         "exec_hi": ("exec_hi", 1), "m0": ("m0", 1), "scc": ("scc", 1), "null": ("null", 1), "flat_scratch": ("flat_scratch_lo", 2),
         "flat_scratch_lo": ("flat_scratch_lo", 1), "flat_scratch_hi": ("flat_scratch_hi", 1)}
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
    if re.match(r"v_(dual_)?(pk_)?(fma|fmac|mad_f|mac_f|fmaak|fmamk|mad_mix)", op) or re.match(r"v_(dual_)?(pk_)?(add|sub|mul|subrev)_f", op):
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
    if name.startswith(("s_cmp", "s_bitcmp")) or (ins.kind == "scalar" and re.match(r"s_(add|sub|and|or|xor|lsh|ash|bfe|andn2|min|max|nor|nand)", name)):
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
    for m in re.finditer(r"\b(offset[01]?):(\w+)", rest):
        ins.extra[m.group(1)] = int(m.group(2), 0)
    ins.mods = tuple(re.findall(r"\b(quad_perm|row_\w+|dst_sel:\w+|src0_sel:\w+|src1_sel:\w+|op_sel\S*|wave_\w+|neg_\w+|clamp)", rest))
    rest = re.split(r"\s+(?:offset[01]?:|glc|dlc|slc|quad_perm|row_|op_sel|dst_sel|src\d_sel|offen|bound_ctrl|clamp|neg_|wave_|mul:|div:|nt|sc\d|gds|idxen|dst_unused|lds)", rest)[0]
    ins.op = base_of(op)
    ins.operands = tuple(operand(x) for x in re.split(r",\s*(?![^\[]*\])", rest) if x.strip())
    fill(ins, lanes)
    if any(m.startswith(("quad_perm", "row_", "wave_")) for m in ins.mods) or ("_sel" in " ".join(ins.mods) and ins.op != "v_pk_mov_b32"):
        ins.run = None
    else:
        ins.run = RUN.get(ins.op)
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
            ins.work, ins.operands, ins.run = first.work + second.work, (first, second), RUN["v_dual"]
            code.append(ins)
            continue
        code.append(make(s, len(code), lanes))
    for ins in code:
        if ins.op.startswith(("s_cbranch", "s_branch")) and ins.operands:
            ins.target = labels.get(ins.operands[-1][1])
    return code


def bits_float(x):
    return struct.unpack("<f", struct.pack("<I", x & MASK))[0]


def float_bits(x):
    try:
        return struct.unpack("<I", struct.pack("<f", x))[0]
    except OverflowError:
        return 0x7F800000


def to_u32(x):
    f = bits_float(x)
    return 0 if f != f else int(max(0, min(4294967295, f)))


def bfe(x, offset, n):
    offset, n = offset & 31, n & 31
    return x >> offset & ((1 << n) - 1)


def bfe_signed(x, offset, n):
    v = bfe(x, offset, n)
    n &= 31
    return v - (1 << n) if n and v >> (n - 1) else v


def perm(a, b, select):
    both, out = a << 32 | b, 0
    for i in range(4):
        s = select >> 8 * i & 255
        byte = both >> 8 * s & 255 if s < 8 else 0xFF if s >= 13 else 0
        out |= byte << 8 * i
    return out


ONE = {"v_mov_b32": lambda x: x, "v_not_b32": lambda x: ~x, "s_mov_b32": lambda x: x, "s_not_b32": lambda x: ~x, "s_abs_i32": lambda x: abs(signed(x)),
       "v_cvt_f32_u32": lambda x: float_bits(float(x)), "v_cvt_f32_i32": lambda x: float_bits(float(signed(x))), "v_cvt_u32_f32": to_u32,
       "v_rcp_iflag_f32": lambda x: float_bits(1.0 / bits_float(x)) if bits_float(x) else 0x7F800000,
       "v_rcp_f32": lambda x: float_bits(1.0 / bits_float(x)) if bits_float(x) else 0x7F800000, "v_trunc_f32": lambda x: float_bits(float(int(bits_float(x)))),
       "s_sext_i32_i16": lambda x: (x & 0xFFFF) - (0x10000 if x & 0x8000 else 0), "s_sext_i32_i8": lambda x: (x & 0xFF) - (0x100 if x & 0x80 else 0),
       "s_brev_b32": lambda x: int(f"{x:032b}"[::-1], 2), "v_accvgpr_write_b32": lambda x: x, "v_accvgpr_read_b32": lambda x: x}
TWO = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "subrev": lambda a, b: b - a, "mul": lambda a, b: a * b, "and": lambda a, b: a & b,
       "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "xnor": lambda a, b: ~(a ^ b), "andn2": lambda a, b: a & ~b, "orn2": lambda a, b: a | ~b,
       "shlrev": lambda a, b: b << (a & 31), "shrrev": lambda a, b: b >> (a & 31), "sarrev": lambda a, b: signed(b) >> (a & 31),
       "shl": lambda a, b: a << (b & 31), "shr": lambda a, b: a >> (b & 31), "sar": lambda a, b: signed(a) >> (b & 31),
       "min_u": min, "max_u": max, "min_i": lambda a, b: min(signed(a), signed(b)), "max_i": lambda a, b: max(signed(a), signed(b)),
       "mulhi_u": lambda a, b: a * b >> 32, "mulhi_i": lambda a, b: signed(a) * signed(b) >> 32, "mul24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
       "mulf": lambda a, b: float_bits(bits_float(a) * bits_float(b)), "bfm": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31),
       "pack": lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16, "bfe_su": lambda a, b: bfe(a, b, b >> 16), "bfe_ss": lambda a, b: bfe_signed(a, b, b >> 16)}
TWO_OPS = {"v_add_u32": "add", "v_add_nc_u32": "add", "v_sub_u32": "sub", "v_sub_nc_u32": "sub", "v_subrev_u32": "subrev", "v_subrev_nc_u32": "subrev",
           "v_mul_lo_u32": "mul", "v_mul_lo_i32": "mul", "v_mul_u32_u24": "mul24", "v_mul_i32_i24": "mul24", "v_mul_hi_u32": "mulhi_u", "v_mul_hi_i32": "mulhi_i",
           "v_mul_hi_u32_u24": None, "v_and_b32": "and", "v_or_b32": "or", "v_xor_b32": "xor", "v_xnor_b32": "xnor", "v_lshlrev_b32": "shlrev",
           "v_lshrrev_b32": "shrrev", "v_ashrrev_i32": "sarrev", "v_min_u32": "min_u", "v_max_u32": "max_u", "v_min_i32": "min_i", "v_max_i32": "max_i",
           "v_mul_f32": "mulf", "v_bfm_b32": "bfm",
           "s_add_u32": "add", "s_add_i32": "add", "s_sub_u32": "sub", "s_sub_i32": "sub", "s_mul_i32": "mul", "s_mul_hi_u32": "mulhi_u", "s_mul_hi_i32": "mulhi_i",
           "s_and_b32": "and", "s_or_b32": "or", "s_xor_b32": "xor", "s_xnor_b32": "xnor", "s_andn2_b32": "andn2", "s_and_not1_b32": "andn2", "s_orn2_b32": "orn2",
           "s_or_not1_b32": "orn2", "s_lshl_b32": "shl", "s_lshr_b32": "shr", "s_ashr_i32": "sar", "s_min_u32": "min_u", "s_max_u32": "max_u", "s_min_i32": "min_i",
           "s_max_i32": "max_i", "s_bfm_b32": "bfm", "s_pack_ll_b32_b16": "pack", "s_bfe_u32": "bfe_su", "s_bfe_i32": "bfe_ss"}
THREE = {"v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c, "v_add_lshl_u32": lambda a, b, c: (a + b & MASK) << (c & 31),
         "v_lshl_or_b32": lambda a, b, c: (a << (b & 31) & MASK) | c, "v_and_or_b32": lambda a, b, c: a & b | c, "v_or3_b32": lambda a, b, c: a | b | c,
         "v_add3_u32": lambda a, b, c: a + b + c, "v_xad_u32": lambda a, b, c: (a ^ b) + c, "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
         "v_mad_i32_i24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c, "v_bfe_u32": bfe, "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
         "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31), "v_perm_b32": perm, "v_xor3_b32": lambda a, b, c: a ^ b ^ c,
         "v_mad_u32_u16": lambda a, b, c: (a & 0xFFFF) * (b & 0xFFFF) + c, "v_min3_u32": min, "v_max3_u32": max, "v_bfe_i32": bfe_signed, "v_med3_u32": lambda a, b, c: sorted((a, b, c))[1],
         "v_med3_i32": lambda a, b, c: sorted((signed(a), signed(b), signed(c)))[1], "v_min3_i32": lambda a, b, c: min(signed(a), signed(b), signed(c)),
         "v_max3_i32": lambda a, b, c: max(signed(a), signed(b), signed(c))}
COMPARE = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lg": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
           "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "t": lambda a, b: True, "f": lambda a, b: False}


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
        """Which registers hold what at the begin follows from which are read first: the arguments' address, before it the launch's
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
            first = at + 2 + (2 if any("flat_scratch" in ins.text or "scratch_" in ins.op for ins in self.code[:60]) and f"s{at + 4}" in early else 0)
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


def run_one(f):
    def run(w, ins):
        w.put(ins.operands[0][1], low(lift1(f, low(w.value(ins.operands[1])))))
    return run


def run_two(f, is_scalar, is_carry=None, is_logic=False):
    def run(w, ins):
        o = ins.operands
        total = lift2(f, low(w.value(o[1])), low(w.value(o[2])))
        w.put(o[0][1], low(total))
        if is_scalar:
            if is_carry:
                w.state["scc"] = lift1(lambda x: int(x >> 32 & 1), total)
            elif is_logic:
                w.state["scc"] = lift1(lambda x: int(x & MASK != 0), total)
    return run


def run_three(f):
    def run(w, ins):
        o = ins.operands
        w.put(o[0][1], low(lift3(f, low(w.value(o[1])), low(w.value(o[2])), low(w.value(o[3])))))
    return run


def wide_logic(f):
    """Logic of pairs of scalar registers, which lane masks are."""
    def run(w, ins):
        o = ins.operands
        total = lift2(f, wide(w, o[1]), wide(w, o[2]))
        put_pair(w, o[0][1], total)
        w.state["scc"] = lift1(lambda x: int(x & FULL64 != 0), total)
    return run


def wide(w, o):
    if o[0] == "i":
        return o[1] if o[1] <= MASK or o[1] > MASK else o[1]
    return w.value(o, True)


def put_pair(w, name, total):
    w.put(name, low(total))
    w.put(next_name(name), lift1(lambda x: x >> 32 & MASK, total))


def saveexec(f):
    """exec becomes f(condition, exec) and the old one is kept. A condition that is not known lets all lanes on."""
    def run(w, ins):
        o = ins.operands
        old = w.mask("exec_lo")
        condition = (o[1][1] if o[1][0] == "i" else w.mask(o[1][1]))
        if condition is None:
            w.unknown += 1
            new = old
        else:
            new = None if old is None else f(condition, old) & w.full
        w.set_mask(o[0][1], old)
        w.set_mask("exec_lo", new)
        w.state["scc"] = None if new is None else int(new != 0)
    return run


def run_compare(w, ins):
    parts = ins.op.split("_")  # v_cmp_gt_u32, v_cmpx_ne_i32, s_cmp_lg_u64, s_cmpk_eq_i32
    name, kind = parts[-2], parts[-1]
    o = ins.operands
    is_vector = ins.op[0] == "v"
    has_result = is_vector and len(o) > 2
    a, b = o[-2], o[-1]
    if kind in ("u32", "i32", "u16", "i16", "b32"):
        x, y = low(w.value(a)), low(w.value(b))
        if kind.startswith("i"):
            x, y = lift1(signed, x), lift1(signed, y)
        if kind.endswith("16"):
            x, y = lift1(lambda v: v & 0xFFFF, x), lift1(lambda v: v & 0xFFFF, y)
    elif kind in ("u64", "i64"):
        x, y = wide(w, a), wide(w, b)
        if kind == "i64":
            x, y = (lift1(lambda v: v - (1 << 64) if v >> 63 else v, z) for z in (x, y))
    elif kind == "f32":
        x, y = lift1(bits_float, low(w.value(a))), lift1(bits_float, low(w.value(b)))
    else:
        x = y = None
    f = COMPARE.get(name)
    result = lift2(f, x, y) if f else None
    if kind != "f32":
        on = w.mask("exec_lo")
        if on is not None and on != w.full:
            x, y = ([v for i, v in enumerate(z) if on >> i & 1] if type(z) is list else z for z in (x, y))
        w.compared(ins, x, y)
    if not is_vector:
        w.state["scc"] = lift1(int, result)
        return
    mask = w.mask_of(result)
    if ins.op.startswith("v_cmpx"):
        if mask is None:
            w.unknown += 1
        else:
            w.set_mask("exec_lo", mask)
        return
    w.set_mask(o[0][1] if has_result else "vcc_lo", mask)


def run_bitcmp(w, ins):
    v = lift2(lambda a, b: int((a >> (b & 31) & 1) == (1 if "bitcmp1" in ins.op else 0)), w.value(ins.operands[0]), w.value(ins.operands[1]))
    w.state["scc"] = v


def run_select(w, ins):
    c, o = w.state.get("scc"), ins.operands
    pick = None if c is None else o[1] if c else o[2]
    if ins.op.endswith("64"):
        put_pair(w, o[0][1], None if pick is None else wide(w, pick))
    else:
        w.put(o[0][1], None if pick is None else w.value(pick))


def run_cndmask(w, ins):
    o = ins.operands
    mask = w.mask(o[3][1] if len(o) > 3 and o[3][0] == "r" else "vcc_lo")
    a, b = low(w.value(o[1])), low(w.value(o[2]))
    if mask is None or a is None and b is None:
        w.put(o[0][1], None)
        return
    if mask == 0 or mask == w.full:
        w.put(o[0][1], b if mask else a)
        return
    if a is None or b is None:
        w.put(o[0][1], None)
        return
    a = a if type(a) is list else [a] * w.lanes
    b = b if type(b) is list else [b] * w.lanes
    w.put(o[0][1], [y if mask >> i & 1 else x for i, (x, y) in enumerate(zip(a, b))])


def carry_lanes(w, o):
    """The carry that is added, as a number for each lane."""
    mask = w.mask(o[1]) if o[0] == "r" else None
    return None if mask is None else [mask >> i & 1 for i in range(w.lanes)]


def run_add_carry(sign, reverse=False):
    def run(w, ins):
        o = ins.operands
        has_in = "_ci_" in ins.op or "addc" in ins.op or "subb" in ins.op
        if len(o) < 4:
            return run_two(TWO["sub" if sign < 0 else "add"], False)(w, ins)
        a, b = low(w.value(o[2])), low(w.value(o[3]))
        if reverse:
            a, b = b, a
        total = lift2(lambda x, y: x + sign * y, a, b)
        if has_in:
            total = lift2(lambda x, y: x + sign * y, total, carry_lanes(w, o[4]))
        w.put(o[0][1], low(total))
        w.set_mask(o[1][1], w.mask_of(lift1(lambda x: x > MASK or x < 0, total)))
    return run


def run_scalar_carry(sign):
    def run(w, ins):
        o = ins.operands
        total = lift3(lambda a, b, c: a + sign * (b + c), low(w.value(o[1])), low(w.value(o[2])), w.state.get("scc"))
        w.put(o[0][1], low(total))
        w.state["scc"] = lift1(lambda x: int(x > MASK or x < 0), total)
    return run


def run_sub_u32(w, ins):
    o = ins.operands
    total = lift2(lambda a, b: a - b, low(w.value(o[1])), low(w.value(o[2])))
    w.put(o[0][1], low(total))
    w.state["scc"] = lift1(lambda x: int(x < 0), total)


def run_mad64(is_signed):
    def run(w, ins):
        o = ins.operands
        a, b = low(w.value(o[2])), low(w.value(o[3]))
        c = wide(w, o[4])
        product = lift2((lambda x, y: signed(x) * signed(y)) if is_signed else (lambda x, y: x * y), a, b)
        w.put_wide(o[0][1], lift2(lambda x, y: x + y, product, c))
    return run


def run_shift64(f):
    def run(w, ins):
        o = ins.operands
        w.put_wide(o[0][1], lift2(lambda n, x: f(x, n & 63) & FULL64, low(w.value(o[1])), wide(w, o[2])))
    return run


def run_scalar_shift64(f):
    def run(w, ins):
        o = ins.operands
        total = lift2(lambda x, n: f(x, n & 63) & FULL64, wide(w, o[1]), low(w.value(o[2])))
        put_pair(w, o[0][1], total)
        w.state["scc"] = lift1(lambda x: int(x != 0), total)
    return run


def run_mov64(w, ins):
    o = ins.operands
    if o[0][1] == "exec_lo" or (o[1][0] == "r"):
        put_pair(w, o[0][1], wide(w, o[1]))
    else:
        v = o[1][1]
        put_pair(w, o[0][1], v if v <= MASK else v)


def run_movk(w, ins):
    v = ins.operands[1][1] & 0xFFFF
    w.put(ins.operands[0][1], (v - 0x10000 if v & 0x8000 else v) & MASK)


def run_addk(w, ins):
    v = ins.operands[1][1] & 0xFFFF
    v = v - 0x10000 if v & 0x8000 else v
    name = ins.operands[0][1]
    old = w.state.get(name)
    w.put(name, lift1(lambda x: (x * v if "mulk" in ins.op else x + v) & MASK, old))


def run_lshl_add(w, ins):
    n, o = int(ins.op[6]), ins.operands
    w.put(o[0][1], low(lift2(lambda a, b: (a << n) + b, low(w.value(o[1])), low(w.value(o[2])))))


def run_first_lane(w, ins):
    v = w.value(ins.operands[1])
    if type(v) is list:
        on = w.mask("exec_lo")
        lane = 0 if not on else (on & -on).bit_length() - 1
        v = v[lane]
    w.state[ins.operands[0][1]] = v


def run_read_lane(w, ins):
    spilled = f"{ins.operands[1][1]}@{w.value(ins.operands[2])}"
    if spilled in w.state:
        w.state[ins.operands[0][1]] = w.state[spilled]
        return
    v, lane = w.value(ins.operands[1]), w.value(ins.operands[2])
    w.state[ins.operands[0][1]] = None if v is None or lane is None else v[lane & (w.lanes - 1)] if type(v) is list else v


def run_write_lane(w, ins):
    """Scalar registers that spill go into lanes."""
    o = ins.operands
    lane = w.value(o[2])
    w.state[o[0][1]] = None
    if type(lane) is int:
        w.state[f"{o[0][1]}@{lane}"] = w.value(o[1])


def run_pair_move(w, ins):
    o = ins.operands
    if any(m == "op_sel:[0,1]" for m in ins.mods):
        low_word, high_word = w.state.get(o[1][1]), w.state.get(next_name(o[2][1]))
    else:
        low_word = high_word = None
    w.put(o[0][1], low_word)
    w.put(next_name(o[0][1]), high_word)


def run_mbcnt(w, ins):
    o = ins.operands
    mask, add = w.value(o[1]), w.value(o[2])
    base = 0 if "lo" in ins.op else 32
    if mask is None or type(mask) is list or add is None:
        w.put(o[0][1], None)
        return
    count = [bin(mask & MASK & ((1 << max(0, min(32, i - base))) - 1)).count("1") for i in range(w.lanes)]
    w.put(o[0][1], lift2(lambda a, b: a + b, count, add))


def run_dual(w, ins):
    first, second = ins.operands
    keep = {d: w.state.get(d) for d in first.dst}
    for part in (first, second):
        if part is second:
            new = {d: w.state.get(d) for d in first.dst}
            w.state.update(keep)  # both read what was there before
        if part.run:
            part.run(w, part)
        else:
            for d in part.dst:
                w.state[d] = None
    w.state.update(new)


def run_ext(w, ins):
    """v_lshl_add_u64."""
    o = ins.operands
    w.put_wide(o[0][1], lift3(lambda a, n, c: (a << (n & 7)) + c, wide(w, o[1]), low(w.value(o[2])), wide(w, o[3])))


def table():
    run = {name: run_one(f) for name, f in ONE.items()}
    for name, what in TWO_OPS.items():
        if what:
            scalar = name[0] == "s"
            run[name] = run_two(TWO[what], scalar, name in ("s_add_u32",), scalar and what in ("and", "or", "xor", "andn2", "orn2", "shl", "shr", "sar", "bfe_su", "xnor"))
    run.update({name: run_three(f) for name, f in THREE.items()})
    for name, what in (("and", "and"), ("or", "or"), ("xor", "xor"), ("andn2", "andn2"), ("and_not1", "andn2"), ("orn2", "orn2"), ("or_not1", "orn2"), ("xnor", "xnor")):
        run[f"s_{name}_b64"] = wide_logic(TWO[what])
    for name in ("eq", "ne", "lg", "lt", "le", "gt", "ge"):
        for kind in ("u32", "i32", "u64", "i64", "u16", "i16", "f32"):
            for head in ("v_cmp", "v_cmpx", "s_cmp", "s_cmpk"):
                run[f"{head}_{name}_{kind}"] = run_compare
    run.update({"s_and_saveexec": None})
    for bits in ("b32", "b64"):
        run[f"s_and_saveexec_{bits}"] = saveexec(lambda c, e: c & e)
        run[f"s_or_saveexec_{bits}"] = saveexec(lambda c, e: c | e)
        run[f"s_xor_saveexec_{bits}"] = saveexec(lambda c, e: c ^ e)
        run[f"s_andn2_saveexec_{bits}"] = run[f"s_and_not1_saveexec_{bits}"] = saveexec(lambda c, e: c & ~e)
        run[f"s_cselect_{bits}"] = run_select
        run[f"s_bitcmp0_{bits}"] = run[f"s_bitcmp1_{bits}"] = run_bitcmp
    run["s_not_b64"] = lambda w, ins: put_pair(w, ins.operands[0][1], lift1(lambda x: ~x & FULL64, wide(w, ins.operands[1])))
    run["s_mov_b64"] = run_mov64
    run["s_movk_i32"] = run_movk
    run["s_addk_i32"] = run["s_mulk_i32"] = run_addk
    run["s_addc_u32"] = run_scalar_carry(1)
    run["s_subb_u32"] = run_scalar_carry(-1)
    run["s_sub_u32"] = run_sub_u32
    for n in (1, 2, 3, 4):
        run[f"s_lshl{n}_add_u32"] = run_lshl_add
    run["v_cndmask_b32"] = run_cndmask
    for name in ("v_add_co_u32", "v_addc_co_u32", "v_add_co_ci_u32", "v_addc_u32"):
        run[name] = run_add_carry(1)
    for name in ("v_sub_co_u32", "v_subb_co_u32", "v_sub_co_ci_u32", "v_subb_u32"):
        run[name] = run_add_carry(-1)
    for name in ("v_subrev_co_u32", "v_subbrev_co_u32", "v_subrev_co_ci_u32"):
        run[name] = run_add_carry(-1, True)
    run["v_mad_u64_u32"], run["v_mad_i64_i32"] = run_mad64(False), run_mad64(True)
    run["v_lshlrev_b64"] = run_shift64(lambda x, n: x << n)
    run["v_lshrrev_b64"] = run_shift64(lambda x, n: x >> n)
    run["v_ashrrev_i64"] = run_shift64(lambda x, n: (x - (1 << 64) if x >> 63 else x) >> n)
    run["s_lshl_b64"] = run_scalar_shift64(lambda x, n: x << n)
    run["s_lshr_b64"] = run_scalar_shift64(lambda x, n: x >> n)
    run["s_ashr_i64"] = run_scalar_shift64(lambda x, n: (x - (1 << 64) if x >> 63 else x) >> n)
    run["v_lshl_add_u64"] = run_ext
    run["v_readfirstlane_b32"] = run_first_lane
    run["v_readlane_b32"] = run_read_lane
    run["v_writelane_b32"] = run_write_lane
    run["v_pk_mov_b32"] = run_pair_move
    run["v_mbcnt_lo_u32_b32"] = run["v_mbcnt_hi_u32_b32"] = run_mbcnt
    run["v_dual"] = run_dual
    return run


RUN = table()
