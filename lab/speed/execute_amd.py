"""The instructions of AMD's machine code that compute whole numbers, lane masks and conditions: RUN has a function (wave,
instruction) for each. All others give results that are not known."""

import struct

from asm_amd import next_name
from machine import MASK, lift1, lift2, lift3, low, signed

FULL64 = 0xFFFFFFFFFFFFFFFF


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


ONE = {
    "v_mov_b32": lambda x: x,
    "v_not_b32": lambda x: ~x,
    "s_mov_b32": lambda x: x,
    "s_not_b32": lambda x: ~x,
    "s_abs_i32": lambda x: abs(signed(x)),
    "v_cvt_f32_u32": lambda x: float_bits(float(x)),
    "v_cvt_f32_i32": lambda x: float_bits(float(signed(x))),
    "v_cvt_u32_f32": to_u32,
    "v_rcp_iflag_f32": lambda x: float_bits(1.0 / bits_float(x)) if bits_float(x) else 0x7F800000,
    "v_rcp_f32": lambda x: float_bits(1.0 / bits_float(x)) if bits_float(x) else 0x7F800000,
    "v_trunc_f32": lambda x: float_bits(float(int(bits_float(x)))),
    "s_sext_i32_i16": lambda x: (x & 0xFFFF) - (0x10000 if x & 0x8000 else 0),
    "s_sext_i32_i8": lambda x: (x & 0xFF) - (0x100 if x & 0x80 else 0),
    "s_brev_b32": lambda x: int(f"{x:032b}"[::-1], 2),
    "v_accvgpr_write_b32": lambda x: x,
    "v_accvgpr_read_b32": lambda x: x,
}
TWO = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "subrev": lambda a, b: b - a,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "xnor": lambda a, b: ~(a ^ b),
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "shlrev": lambda a, b: b << (a & 31),
    "shrrev": lambda a, b: b >> (a & 31),
    "sarrev": lambda a, b: signed(b) >> (a & 31),
    "shl": lambda a, b: a << (b & 31),
    "shr": lambda a, b: a >> (b & 31),
    "sar": lambda a, b: signed(a) >> (b & 31),
    "min_u": min,
    "max_u": max,
    "min_i": lambda a, b: min(signed(a), signed(b)),
    "max_i": lambda a, b: max(signed(a), signed(b)),
    "mulhi_u": lambda a, b: a * b >> 32,
    "mulhi_i": lambda a, b: signed(a) * signed(b) >> 32,
    "mul24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "mulf": lambda a, b: float_bits(bits_float(a) * bits_float(b)),
    "bfm": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31),
    "pack": lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16,
    "bfe_su": lambda a, b: bfe(a, b, b >> 16),
    "bfe_ss": lambda a, b: bfe_signed(a, b, b >> 16),
}
TWO_OPS = {
    "v_add_u32": "add",
    "v_add_nc_u32": "add",
    "v_sub_u32": "sub",
    "v_sub_nc_u32": "sub",
    "v_subrev_u32": "subrev",
    "v_subrev_nc_u32": "subrev",
    "v_mul_lo_u32": "mul",
    "v_mul_lo_i32": "mul",
    "v_mul_u32_u24": "mul24",
    "v_mul_i32_i24": "mul24",
    "v_mul_hi_u32": "mulhi_u",
    "v_mul_hi_i32": "mulhi_i",
    "v_mul_hi_u32_u24": None,
    "v_and_b32": "and",
    "v_or_b32": "or",
    "v_xor_b32": "xor",
    "v_xnor_b32": "xnor",
    "v_lshlrev_b32": "shlrev",
    "v_lshrrev_b32": "shrrev",
    "v_ashrrev_i32": "sarrev",
    "v_min_u32": "min_u",
    "v_max_u32": "max_u",
    "v_min_i32": "min_i",
    "v_max_i32": "max_i",
    "v_mul_f32": "mulf",
    "v_bfm_b32": "bfm",
    "s_add_u32": "add",
    "s_add_i32": "add",
    "s_sub_u32": "sub",
    "s_sub_i32": "sub",
    "s_mul_i32": "mul",
    "s_mul_hi_u32": "mulhi_u",
    "s_mul_hi_i32": "mulhi_i",
    "s_and_b32": "and",
    "s_or_b32": "or",
    "s_xor_b32": "xor",
    "s_xnor_b32": "xnor",
    "s_andn2_b32": "andn2",
    "s_and_not1_b32": "andn2",
    "s_orn2_b32": "orn2",
    "s_or_not1_b32": "orn2",
    "s_lshl_b32": "shl",
    "s_lshr_b32": "shr",
    "s_ashr_i32": "sar",
    "s_min_u32": "min_u",
    "s_max_u32": "max_u",
    "s_min_i32": "min_i",
    "s_max_i32": "max_i",
    "s_bfm_b32": "bfm",
    "s_pack_ll_b32_b16": "pack",
    "s_bfe_u32": "bfe_su",
    "s_bfe_i32": "bfe_ss",
}
THREE = {
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b & MASK) << (c & 31),
    "v_lshl_or_b32": lambda a, b, c: (a << (b & 31) & MASK) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "v_mad_i32_i24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "v_bfe_u32": bfe,
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31),
    "v_perm_b32": perm,
    "v_xor3_b32": lambda a, b, c: a ^ b ^ c,
    "v_mad_u32_u16": lambda a, b, c: (a & 0xFFFF) * (b & 0xFFFF) + c,
    "v_min3_u32": min,
    "v_max3_u32": max,
    "v_bfe_i32": bfe_signed,
    "v_med3_u32": lambda a, b, c: sorted((a, b, c))[1],
    "v_med3_i32": lambda a, b, c: sorted((signed(a), signed(b), signed(c)))[1],
    "v_min3_i32": lambda a, b, c: min(signed(a), signed(b), signed(c)),
    "v_max3_i32": lambda a, b, c: max(signed(a), signed(b), signed(c)),
}
COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lg": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "t": lambda a, b: True,
    "f": lambda a, b: False,
}


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
        condition = o[1][1] if o[1][0] == "i" else w.mask(o[1][1])
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
    v = lift2(
        lambda a, b: int((a >> (b & 31) & 1) == (1 if "bitcmp1" in ins.op else 0)), w.value(ins.operands[0]), w.value(ins.operands[1])
    )
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
            run[name] = run_two(
                TWO[what],
                scalar,
                name in ("s_add_u32",),
                scalar and what in ("and", "or", "xor", "andn2", "orn2", "shl", "shr", "sar", "bfe_su", "xnor"),
            )
    run.update({name: run_three(f) for name, f in THREE.items()})
    for name, what in (
        ("and", "and"),
        ("or", "or"),
        ("xor", "xor"),
        ("andn2", "andn2"),
        ("and_not1", "andn2"),
        ("orn2", "orn2"),
        ("or_not1", "orn2"),
        ("xnor", "xnor"),
    ):
        run[f"s_{name}_b64"] = wide_logic(TWO[what])
    for name in ("eq", "ne", "lg", "lt", "le", "gt", "ge"):
        for kind in ("u32", "i32", "u64", "i64", "u16", "i16", "f32"):
            for head in ("v_cmp", "v_cmpx", "s_cmp", "s_cmpk"):
                run[f"{head}_{name}_{kind}"] = run_compare
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
