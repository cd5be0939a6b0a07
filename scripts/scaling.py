#!/usr/bin/env python3
"""Draws docs/pictures/scaling-*.svg and fills in the tables of docs/scaling.md with what `clef plan --ranks` predicts.
usage: scripts/scaling.py [CLEF]"""
import json
import math
import pathlib
import re
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent.parent
clef = sys.argv[1] if len(sys.argv) > 1 else str(here / "build/clef")
MODELS = [("llama-8b", "Llama 8 B"), ("llama-70b", "Llama 70 B"), ("llama-405b", "Llama 405 B"), ("moe-1t", "experts, 1 T")]
COLOURS = ["#2471a3", "#c0392b", "#1e8449", "#7d3c98", "#b9770e", "#34495e"]
RANKS = [2**i for i in range(13)]
FAST, SLOW, NEAR = "100Gbit,5us", "25Gbit,20us", "10GB,3us"


def plan(model, ranks, per_node, network, device="accelerator", *flags):
    """The layouts that fit, with tokens a second and milliseconds of a prompt; [] where none does."""
    nodes = max(1, ranks // per_node)
    command = [clef, "plan", here / f"examples/shapes/{model}.json", "--ranks", ranks, "--nodes", nodes, "--network", network,
               "--node-network", NEAR, "--device-profile", here / f"examples/devices/{device}.txt", "--format", "json", *flags]
    layouts = json.loads(subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout)["layouts"]
    return [dict(l, rate=1 / l["decode"]["seconds"], prompt=l["prefill"]["seconds"]) for l in layouts if l.get("fits")]


def text(x, y, content, size=12, anchor="middle", fill="#333", extra=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" {extra}>{content}</text>'


class Chart:
    """Both axes are logarithmic: x by 2, y by 10."""

    def __init__(self, title, y_title, ys, right=150):
        self.width, self.height, self.left, self.top, self.right, self.bottom = 760, 430, 64, 44, right, 52
        self.lo, self.hi = math.floor(math.log10(min(ys)) * 2) / 2, math.ceil(math.log10(max(ys)) * 2) / 2
        self.parts = [text(self.width / 2, 22, title, 15)]
        self.grid(y_title)
        self.labels = []

    def x(self, ranks):
        return self.left + (self.width - self.left - self.right) * math.log2(ranks) / 12

    def y(self, value):
        return self.top + (self.height - self.top - self.bottom) * (self.hi - math.log10(value)) / (self.hi - self.lo)

    def grid(self, y_title):
        end = self.width - self.right
        for r in RANKS:
            self.parts.append(f'<path d="M{self.x(r):.0f} {self.top}V{self.height - self.bottom}" stroke="#eee"/>')
            self.parts.append(text(self.x(r), self.height - self.bottom + 18, f"{r:,}", 11))
        for exponent in range(math.floor(self.lo), math.ceil(self.hi) + 1):
            for digit in (1, 2, 5):
                value = digit * 10.0**exponent
                if self.lo - 1e-9 <= math.log10(value) <= self.hi + 1e-9:
                    self.parts.append(f'<path d="M{self.left} {self.y(value):.0f}H{end}" stroke="{"#ccc" if digit == 1 else "#eee"}"/>')
                    self.parts.append(text(self.left - 6, self.y(value) + 4, f"{value:g}", 11, "end"))
        self.parts.append(text((self.left + end) / 2, self.height - 12, "ranks"))
        middle = (self.top + self.height - self.bottom) / 2
        self.parts.append(text(16, middle, y_title, extra=f'transform="rotate(-90 16 {middle:.0f})"'))

    def line(self, points, colour, dash=""):
        if len(points) > 1:
            path = "M" + "L".join(f"{self.x(r):.1f} {self.y(v):.1f}" for r, v in points)
            self.parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2" {dash}/>')
        self.parts += [f'<circle cx="{self.x(r):.1f}" cy="{self.y(v):.1f}" r="2.5" fill="{colour}"/>' for r, v in points]

    def mark(self, ranks, value, colour, content, above=True):
        self.parts.append(f'<circle cx="{self.x(ranks):.1f}" cy="{self.y(value):.1f}" r="6" fill="none" stroke="{colour}" stroke-width="2"/>')
        self.parts.append(text(self.x(ranks), self.y(value) + (-11 if above else 20), content, 11, fill=colour))

    def label(self, value, content, colour):
        """At the right edge; labels that are too close move down."""
        self.labels.append([self.y(value), content, colour])

    def legend(self, rows):
        for i, (content, dash) in enumerate(rows):
            y, x = self.height - self.bottom - 14 - 18 * (len(rows) - 1 - i), self.width - self.right + 14
            self.parts.append(f'<path d="M{x} {y - 4}h24" stroke="#333" stroke-width="2" {dash}/>')
            self.parts.append(text(x + 30, y, content, 11, "start"))

    def write(self, name):
        last = 0
        for y, content, colour in sorted(self.labels):
            last = max(y + 4, last + 15)
            self.parts.append(text(self.width - self.right + 14, last, content, 12, "start", colour))
        path = here / "docs/pictures" / name
        path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
                        f'viewBox="0 0 {self.width} {self.height}" font-family="Helvetica, Arial, sans-serif">\n'
                        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n")
        print(path.relative_to(here))


DASH = 'stroke-dasharray="5 4"'


def layout_name(l):
    return f'{l["tp"]} x {l["pp"]}'


def best(layouts, key):
    return (min if key == "prompt" else max)(layouts, key=lambda l: l[key])


def curves(key, factor, title, y_title, name):
    """One line for each model and network: the best layout of each number of ranks."""
    runs = {}
    for model, _ in MODELS:
        for network in (FAST, SLOW):
            found = [(r, plan(model, r, 8, network)) for r in RANKS]
            runs[model, network] = [(r, best(ls, key)) for r, ls in found if ls]
    chart = Chart(title, y_title, [l[key] * factor for run in runs.values() for _, l in run])
    for (model, label), colour in zip(MODELS, COLOURS):
        for network, dash in ((FAST, ""), (SLOW, DASH)):
            points = [(r, l[key] * factor) for r, l in runs[model, network]]
            chart.line(points, colour, dash)
        r, top = best_of(runs[model, FAST], key)
        chart.mark(r, top[key] * factor, colour, f"{layout_name(top)}", key != "prompt")
        chart.label(runs[model, FAST][-1][1][key] * factor, label, colour)
    chart.legend([(FAST.replace(",", ", "), ""), (SLOW.replace(",", ", "), DASH)])
    chart.write(name)
    return runs


def best_of(run, key):
    return (min if key == "prompt" else max)(run, key=lambda pair: pair[1][key])


def stages(model, label, name):
    """One line for each number of stages."""
    lines = {}
    for r in RANKS:
        for l in plan(model, r, 8, FAST):
            lines.setdefault(l["pp"], []).append((r, l["rate"]))
    chart = Chart(f"{label}, tokens a second of one text, by stages", "tokens a second", [v for points in lines.values() for _, v in points])
    for (pp, points), colour in zip(sorted(lines.items()), COLOURS):
        chart.line(points, colour)
        chart.label(points[-1][1], f"--pp {pp}", colour)
        chart.mark(*max(points, key=lambda p: p[1]), colour, f'tp {max(points, key=lambda p: p[1])[0] // pp}')
    chart.write(name)


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table(decode, prefill):
    lines = [row(["model", "network", "fewest ranks that hold it", "best for decode", "tokens/s", "best for a prompt", "ms"]), row(["---"] * 7)]
    for model, label in MODELS:
        for network in (FAST, SLOW):
            d, p = decode[model, network], prefill[model, network]
            (rd, ld), (rp, lp) = best_of(d, "rate"), best_of(p, "prompt")
            lines.append(row([label, network.replace(",", ", "), f"{d[0][0]}", f"{rd} as {layout_name(ld)}", f'{ld["rate"]:.0f}',
                              f"{rp} as {layout_name(lp)}", f'{lp["prompt"] * 1e3:.0f}']))
    return "\n".join(lines)


def servers():
    """Servers without accelerators: one rank on each."""
    lines = [row(["model", "weights", "servers", "layout", "tokens/s", "network's part", "GB of a rank"]), row(["---"] * 7)]
    for model, label, dtype in (("llama-8b", "Llama 8 B", "q4_k"), ("llama-70b", "Llama 70 B", "q4_k"), ("llama-405b", "Llama 405 B", "q4_k")):
        for r in (1, 2, 4, 8, 16):
            layouts = plan(model, r, 1, SLOW, "cpu-node", "--dtype", dtype)
            if layouts:
                l = best(layouts, "rate")
                part = l["decode"]["network_seconds"] / l["decode"]["seconds"]
                memory = l["weight_bytes"] + l["state_bytes"] + l["arena_bytes"]
                lines.append(row([label, dtype, f"{r}", layout_name(l), f'{l["rate"]:.1f}', f"{part:.0%}", f"{memory / 1e9:.1f}"]))
    return "\n".join(lines)


decode = curves("rate", 1, "Tokens a second of one text, by the best layout", "tokens a second", "scaling-decode.svg")
prefill = curves("prompt", 1e3, "A prompt of 512 tokens, by the best layout", "milliseconds", "scaling-prefill.svg")
stages("llama-70b", "Llama 70 B", "scaling-stages.svg")
page = here / "docs/scaling.md"
if page.exists():
    content = page.read_text()
    for name, filled in (("accelerators", table(decode, prefill)), ("servers", servers())):
        content = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m: m[1] + filled + "\n" + m[2], content, flags=re.S)
    page.write_text(content)
