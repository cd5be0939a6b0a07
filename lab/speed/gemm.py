"""Holds predictions against published times of CLBlast's product of matrices (published-gemm.toml): many sets of parameters of one
kernel, on one card. The kernel loads tiles into local memory between barriers, and reuses them."""

import re
import statistics
import struct
import sys

import bounds
import cards
import correlation
import follow
import launches
import machine

FIRST_PROGRAM = 1000
KERNEL = "Xgemm"
PARTS = ("#ifndef PRECISION", "#ifndef GEMMK", "void XgemmBody(")  # each is in one of the library's texts, in this order


def text_of(path):
    """The kernel's OpenCL C, as the library CLBlast has it."""
    with open(path, "rb") as file:
        texts = [t.decode() for t in file.read().split(b"\0") if b"\n#" in t and t.isascii()]
    found = [next((t for t in texts if part in t), None) for part in PARTS]
    if None in found:
        sys.exit(f"gemm: {path}: expected a text with {PARTS[found.index(None)]!r}")
    # the drivers' compilers inline every function, clang for PTX does not
    return re.sub(r"(?m)(#define INLINE_FUNC)\b.*$", r"\1 __attribute__((always_inline))", "\n".join(found))


class Variant:
    """A set of parameters, and its measured time in milliseconds."""

    def __init__(self, program, columns, line, where):
        f = line.split()
        if len(f) != len(columns) + 1:
            sys.exit(f"{where}: expected {len(columns)} parameters and a time, got {line!r}")
        self.program = program
        self.set = dict(zip(columns, map(int, f)))
        self.ms = float(f[-1])


def measured():
    """[(card, entry, [Variant])]"""
    out, number = [], FIRST_PROGRAM
    for entry in cards.load("published-gemm.toml")["gemm"]:
        card = dict(cards.cards()[entry["base"]])
        columns = entry["columns"].split()
        variants = []
        for line in entry["times"]:
            v = Variant(f"{number:04d}", columns, line, f"published-gemm.toml: {entry['name']}")
            number += 1
            if max(v.set["VWM"], v.set["VWN"]) <= entry["widest"]:
                variants.append(v)
        out.append((card, entry, variants))
    return out


def write_programs(library, folder, listed):
    """Each variant as a program in the folder, and its line in the list of what to compile."""
    text = text_of(library)
    for card, entry, variants in measured():
        for v in variants:
            constants = entry["constants"].split() + [f"{k}={x}" for k, x in v.set.items()]
            with open(f"{folder}/{v.program}.cl", "w") as file:
                file.write(f"// options: -w -cl-std=CL1.2 {' '.join('-D' + c for c in constants)}\n{text}\n")
            listed.write(f"{v.program} {card['target']} {KERNEL}\n")


class GemmLaunch(launches.Launch):
    """The kernel's launch for square matrices."""

    def __init__(self, v, card, size):
        self.program, self.kernel, self.card, self.step = v.program, KERNEL, card["key"], "gemm"
        self.groups = (size // v.set["MWG"], size // v.set["NWG"], 1)
        self.local = (v.set["MDIMC"], v.set["NDIMC"], 1)
        self.count, self.flops, self.depth, self.args = 1, 2.0 * size**3, 0, b""
        self.target, self.op, self.variant, self.node = card["target"], "gemm", "-", KERNEL
        self.buffers = [launches.Buffer(f"v{size * size * 4}") for _ in range(3)]
        self.size = size

    def parameters(self):
        """Sizes, the two factors, the matrices, two offsets."""
        sizes = struct.pack("<iiiff4x", self.size, self.size, self.size, 1.0, 1.0)
        return sizes + b"".join(struct.pack("<Q", p) for p in self.pointers()) + bytes(16)


def compare(kept):
    """[(entry, [(variant, measured GFLOPS, predicted GFLOPS, rule)])]"""
    out = []
    for card, entry, variants in measured():
        rows = []
        for v in variants:
            launch = GemmLaunch(v, card, entry["size"])
            try:
                waves, lanes, figures = follow.follow(kept, launch, card)
            except (machine.Stop, LookupError) as why:
                print(f"gemm: {entry['name']}: {v.set}: {why}", file=sys.stderr)
                continue
            p = bounds.predict(launch, card, waves, lanes, figures)
            rows.append((v, launch.flops / v.ms / 1e6, launch.flops / p.total / 1e9, p.rule))
        out.append((entry, rows))
    return out


def lines_of(kept):
    """Tables: how errors and order are, overall and by where the tiles are, and which set the model would choose."""
    out = [
        "| CLBlast's Xgemm | sets | rank correlation | median error | median of predicted / measured | right order of pairs that differ by a fifth | by half |",
        "|---|---|---|---|---|---|---|",
    ]
    choices = []
    for entry, rows in compare(kept):
        places = {
            "all": rows,
            "both tiles in local memory": [r for r in rows if r[0].set["SA"] + r[0].set["SB"] == 2],
            "one": [r for r in rows if r[0].set["SA"] + r[0].set["SB"] == 1],
            "none": [r for r in rows if r[0].set["SA"] + r[0].set["SB"] == 0],
        }
        for place, own in places.items():
            if len(own) < 3:
                continue
            found, predicted = [r[1] for r in own], [r[2] for r in own]
            pairs = [correlation.pairs_in_order(found, predicted, f) for f in (1.2, 1.5)]
            shares = " | ".join(f"{100 * right / n:.0f} % of {n}" if n else "" for right, n in pairs)
            out.append(
                f"| {entry['name']}, {entry['size']}³, {place} | {len(own)} | {correlation.spearman(found, predicted):.2f} | "
                f"{100 * statistics.median(correlation.errors(found, predicted)):.0f} % | "
                f"{statistics.median(p / m for m, p in zip(found, predicted)):.2f} | {shares} |"
            )
        best, choice = max(rows, key=lambda r: r[1]), max(rows, key=lambda r: r[2])
        worst = max(rows, key=lambda r: abs(r[2] / r[1] - 1))
        choices.append(
            f"| {entry['name']} | {best[1]:,.0f} / {best[2]:,.0f} | {choice[1]:,.0f} / {choice[2]:,.0f} | "
            f"{100 * abs(worst[2] / worst[1] - 1):.0f} % ({worst[1]:,.0f} / {worst[2]:,.0f}, {worst[3]} rules) |"
        )
    out += [
        "",
        "| GFLOPS measured / predicted | the set that was fastest | the set that the model calls fastest | largest error |",
        "|---|---|---|---|",
    ]
    return out + choices
