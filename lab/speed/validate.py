"""Holds predictions against published measurements of clpeak's kernels (published.toml) and of CLBlast's (gemm.py).

usage: validate.py programs CLPEAK CLBLAST FOLDER  writes their kernels as programs, and FOLDER/list, for compilers
       validate.py table FOLDER KEPT SUMS COMPILERS [DOCUMENT]
  CLPEAK    the program of Debian's package, in which its kernels stand as text
  CLBLAST   the library of Debian's package, likewise
  DOCUMENT  gets the table between "<!-- validated -->" and "<!-- end of validation -->"
The exit code is 1 where the rank correlation over all measurements of computing is below 0.8."""

import re
import statistics
import struct
import sys

import bounds
import cards
import document
import follow
import gemm
import kept as kept_module
import launches
import machine
from correlation import spearman

FAMILIES = {
    "bandwidth": "global_bandwidth_v{}_local_offset",
    "fma": "compute_sp_v{}",
    "int": "compute_integer_v{}",
    "int24": "compute_intfast_v{}",
}
WIDTHS = (1, 2, 4, 8, 16)
GROUP = 256
FETCHES = 16
READ_BYTES = 1 << 30
GROUPS_A_UNIT = 2048
BEGIN, END = "<!-- validated -->", "<!-- end of validation -->"
LEAST_CORRELATION = 0.8


def kernels_of(path):
    """The sections of clpeak's OpenCL C, by family."""
    with open(path, "rb") as file:
        texts = [t.decode() for t in file.read().split(b"\0") if b"__kernel void" in t]
    sections = [s for t in texts for s in re.split(r"(?=\n#undef )", t)]
    joined, found = "", {}
    for s in sections:
        joined += s
        if "__kernel void" not in s:
            continue
        for family, name in FAMILIES.items():
            if f"void {name.format(1)}(" in joined:
                found[family] = re.sub(r"(?m)^\s*#(if|ifdef|endif|pragma).*$", "", joined)
        joined = ""
    return found


def write_programs(clpeak, clblast, folder):
    found = kernels_of(clpeak)
    missing = sorted(set(FAMILIES) - set(found))
    if missing:
        sys.exit(f"validate: {clpeak}: expected kernels for {', '.join(missing)}")
    targets = sorted({cards.cards()[c["base"]]["target"] for c in cards.load("published.toml")["clpeak"]})
    with open(f"{folder}/list", "w") as listed:
        for number, (family, text) in enumerate(sorted(found.items())):
            with open(f"{folder}/{number:04d}.cl", "w") as file:
                file.write(f"// options: -w -cl-std=CL1.2 -cl-mad-enable\n{text}\n")
            for target in targets:
                listed.write(f"{number:04d} {target} {FAMILIES[family].format(1)}\n")
        gemm.write_programs(clblast, folder, listed)


class PeakLaunch(launches.Launch):
    """A launch of one of these kernels."""

    def __init__(self, program, kernel, card, groups, buffers, scalar):
        self.program, self.kernel, self.card, self.step = program, kernel, card["key"], "clpeak"
        self.groups, self.local, self.count, self.flops, self.depth = (groups, 1, 1), (GROUP, 1, 1), 1, 0.0, 0
        self.args, self.target, self.op, self.variant, self.node = b"", card["target"], "clpeak", "-", kernel
        self.buffers = buffers
        self.scalars = {} if scalar is None else {len(buffers): scalar}

    def parameters(self):
        out = b"".join(struct.pack("<Q", p) for p in self.pointers())
        return out + b"".join(self.scalars.values()) + bytes(8)


def operations(family, width):
    """Of a work-item: 16 multiply-adds in each round, and fewer rounds for wider vectors."""
    return {"fma": 4096, "int": 2048, "int24": 2048}[family]


def predict(kept, card, program, family, width):
    """GB or thousand millions of operations a second."""
    kernel = FAMILIES[family].format(width)
    if family == "bandwidth":
        items = READ_BYTES // (4 * width * FETCHES)
        buffers = [launches.Buffer(f"w{READ_BYTES}"), launches.Buffer(f"v{items * 4}")]
        launch = PeakLaunch(program, kernel, card, items // GROUP, buffers, None)
        done = READ_BYTES
    else:
        groups = card["units_reported"] * GROUPS_A_UNIT
        scalar = struct.pack("<f", 1.3) if family == "fma" else struct.pack("<i", 4)
        launch = PeakLaunch(program, kernel, card, groups, [launches.Buffer(f"v{groups * GROUP * 4}")], scalar)
        done = groups * GROUP * operations(family, width)
    waves, lanes, figures = follow.follow(kept, launch, card)
    p = bounds.predict(launch, card, waves, lanes, figures)
    return done / p.total / 1e9, p.rule


def card_of(measured):
    card = dict(cards.cards()[measured["base"]])
    for name in ("units", "ghz", "memory_gbs"):
        if name in measured:
            card[name] = measured[name]
            if name == "units":
                card["units_reported"] = measured[name]
    return card


def compare(kept):
    """[(card, family, width, measured, predicted, rule)]"""
    programs = {family: f"{i:04d}" for i, family in enumerate(sorted(FAMILIES))}
    out = []
    for measured in cards.load("published.toml")["clpeak"]:
        card = card_of(measured)
        for family in FAMILIES:
            for width, value in zip(WIDTHS, measured[family]):
                try:
                    predicted, rule = predict(kept, card, programs[family], family, width)
                except (machine.Stop, LookupError) as why:
                    print(f"validate: {measured['name']}: {family} {width}: {why}", file=sys.stderr)
                    continue
                out.append((measured["name"], family, width, value, predicted, rule))
    return out


def lines_of(rows):
    names = list(dict.fromkeys(r[0] for r in rows))
    out = [
        "| card | " + " | ".join(f"{f} measured / predicted" for f in FAMILIES) + " | median error | rank correlation |",
        "|---" * (len(FAMILIES) + 3) + "|",
    ]
    for name in names:
        own = [r for r in rows if r[0] == name]
        cells = []
        for family in FAMILIES:
            pairs = [(r[3], r[4]) for r in own if r[1] == family]
            cells.append(f"{statistics.median(p[0] for p in pairs):,.0f} / {statistics.median(p[1] for p in pairs):,.0f}" if pairs else "")
        errors = [abs(r[4] / r[3] - 1) for r in own]
        out.append(
            f"| {name} | "
            + " | ".join(cells)
            + f" | {100 * statistics.median(errors):.0f} % | {spearman([r[3] for r in own], [r[4] for r in own]):.2f} |"
        )
    out.append("")
    out.append("| measurements | number | rank correlation | median error | largest error |")
    out.append("|---|---|---|---|---|")
    kinds = {"computing": [r for r in rows if r[1] != "bandwidth"], "reading memory": [r for r in rows if r[1] == "bandwidth"]}
    for family in ("fma", "int", "int24"):
        kinds[family] = [r for r in rows if r[1] == family]
    for kind, own in kinds.items():
        errors = [abs(r[4] / r[3] - 1) for r in own]
        worst = max(own, key=lambda r: abs(r[4] / r[3] - 1))
        out.append(
            f"| {kind} | {len(own)} | {spearman([r[3] for r in own], [r[4] for r in own]):.2f} | {100 * statistics.median(errors):.0f} % | "
            f"{100 * max(errors):.0f} % ({worst[0]}, {worst[1]} {worst[2]}: {worst[3]:,.0f} measured, {worst[4]:,.0f} predicted) |"
        )
    return out, spearman([r[3] for r in kinds["computing"]], [r[4] for r in kinds["computing"]])


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "programs":
        write_programs(*sys.argv[2:5])
        return
    if len(sys.argv) not in (6, 7) or sys.argv[1] != "table":
        sys.exit(__doc__)
    kept = kept_module.Kept(*sys.argv[3:6])
    lines, correlation = lines_of(compare(kept))
    lines += ["", *gemm.lines_of(kept)]
    print("\n".join(lines))
    if len(sys.argv) == 7:
        document.write_between(sys.argv[6], BEGIN, END, lines)
    sys.exit(1 if correlation < LEAST_CORRELATION else 0)


if __name__ == "__main__":
    main()
