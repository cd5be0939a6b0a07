"""Tables of what predict.py predicted.

usage: report.py CSV ALL [SUMMARY]
  CSV      what predict.py wrote
  ALL      gets all tables, as Markdown
  SUMMARY  a document whose text between "<!-- predicted -->" and "<!-- end -->" is replaced by the short ones"""

import csv
import json
import os
import sys
from collections import defaultdict

import cards

ROOT = os.path.dirname(os.path.dirname(cards.HERE))
BEGIN, END = "<!-- predicted -->", "<!-- end -->"


def read(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for r in rows:
        for name in ("us", "share", "memory_us", "cache_us", "issue_us", "pipe_us", "latency_us"):
            r[name] = float(r[name])
        r["count"] = int(r["count"])
        r["whole"] = r["us"] * r["count"]
    return rows


def layers_of(model):
    with open(os.path.join(ROOT, "lab/kernels/shapes", model["shape"] + ".json")) as file:
        shape = json.load(file)
    return shape.get("num_hidden_layers") or shape["n_layer"]


def table(head, lines):
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return out + ["| " + " | ".join(str(x) for x in line) + " |" for line in lines] + [""]


def number(x):
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


class Report:
    def __init__(self, rows):
        self.rows = [r for r in rows if not r["step"].startswith("layer/")]
        self.all_rows = rows
        self.cards = [c for c in cards.cards().values() if any(r["card"] == c["key"] for r in rows)]
        self.models = cards.load("steps.toml")
        self.published = cards.load("published.toml") if os.path.exists(os.path.join(cards.HERE, "published.toml")) else {}
        self.by_step = defaultdict(list)
        for r in self.rows:
            self.by_step[r["card"], r["step"]].append(r)

    # ---- whole steps -----------------------------------------------------------------------------------------------------------------

    def steps(self):
        for name, model in self.models.items():
            for step, s in model["steps"].items():
                yield name, model, step, s

    def tokens(self, card, name, step, s):
        """(kernels ms, launches, launch ms, tokens a second)"""
        rows = self.by_step.get((card["key"], f"{name}/{step}"))
        if not rows:
            return None
        kernels = sum(r["whole"] for r in rows) / 1e3
        n = sum(r["count"] for r in rows)
        launch = n * card["launch_us"] / 1e3
        made = s.get("tokens", 1) * s.get("sequences", 1)
        return kernels, n, launch, made / (kernels + launch) * 1e3

    def whole_steps(self):
        out = ["Tokens a second, with the launch cost of the card's driver; in brackets the share of the time that launches cost.", ""]
        lines = []
        for name, model, step, s in self.steps():
            line = [f"{name} {model['dtype']}", step]
            for card in self.cards:
                t = self.tokens(card, name, step, s)
                line.append("" if t is None else f"{number(t[3])} ({100 * t[2] / (t[0] + t[2]):.0f} %)")
            lines.append(line)
        return out + table(["model", "step"] + [c["name"] for c in self.cards], lines)

    def launches(self):
        lines = []
        for name, model, step, s in self.steps():
            n = {}
            for card in self.cards:
                rows = self.by_step.get((card["key"], f"{name}/{step}"))
                if rows:
                    n[card["key"]] = sum(r["count"] for r in rows)
            if n:
                layers = layers_of(model)
                low, high = min(n.values()), max(n.values())
                share = []
                for card in self.cards:
                    t = self.tokens(card, name, step, s)
                    if t:
                        share.append(100 * t[2] / (t[0] + t[2]))
                each = f"{low / layers:.1f}" if low == high else f"{low / layers:.1f} to {high / layers:.1f}"
                lines.append(
                    [
                        f"{name} {model['dtype']}",
                        step,
                        low if low == high else f"{low} to {high}",
                        each,
                        f"{min(share):.0f} to {max(share):.0f} %",
                    ]
                )
        return table(["model", "step", "launches", "per layer", "share of the time"], lines)

    # ---- kernels ---------------------------------------------------------------------------------------------------------------------

    def kernels(self, names, steps):
        """A line for each kernel of these steps whose time matters, a column for each card: share of the limit, and what rules."""
        keys, cells = [], {}
        for r in self.rows:
            if r["step"] not in steps or not r["kernel"].startswith(names):
                continue
            key = (r["step"], r["node"], r["kernel"])
            if key not in keys:
                keys.append(key)
            cells[key, r["card"]] = f"{r['share']:.0f} % {r['rule']}"
        lines = [
            [step, f"{kernel} {node}"] + [cells.get(((step, node, kernel), c["key"]), "") for c in self.cards]
            for step, node, kernel in keys
        ]
        return table(["step", "kernel"] + [c["name"] for c in self.cards], lines)

    def lost(self, card, most=12):
        """Launches by the time that they take beyond their limit, over all steps of all models."""
        lines = []
        for (key, step), rows in self.by_step.items():
            if key != card["key"]:
                continue
            whole = sum(r["whole"] for r in rows)
            for r in rows:
                waste = r["whole"] * (1 - r["share"] / 100)
                lines.append((waste / whole, waste, r, step))
        lines.sort(key=lambda x: -x[0])
        seen, out = set(), []
        for part, waste, r, step in lines:
            key = (r["kernel"], r["constants"], step.split("/")[1])
            if key in seen:
                continue
            seen.add(key)
            out.append(
                [
                    step,
                    f"{r['kernel']} {r['node']}",
                    r["count"],
                    number(r["us"]),
                    f"{r['share']:.0f} % of {r['limit']}",
                    r["rule"],
                    f"{100 * part:.0f} %",
                    r["waits_for"],
                ]
            )
            if len(out) == most:
                break
        return table(["step", "kernel", "launches", "µs each", "share", "rules", "lost, of the step", "waits for (of a wave alone)"], out)

    def card_table(self, card):
        lines, seen = [], set()
        for r in sorted(
            (r for r in self.all_rows if r["card"] == card["key"]), key=lambda r: (r["step"].startswith("layer/"), r["step"], -r["whole"])
        ):
            key = (r["kernel"], r["constants"], r["groups"], r["us"])
            if key in seen:
                continue
            seen.add(key)
            lines.append(
                [
                    r["step"],
                    r["kernel"],
                    r["constants"],
                    r["groups"],
                    r["count"],
                    number(r["us"]),
                    r["rule"],
                    f"{r['share']:.0f} % of {r['limit']}",
                    number(r["memory_us"]),
                    number(r["issue_us"]),
                    f"{r['pipe']} {number(r['pipe_us'])}",
                    number(r["latency_us"]),
                    r["registers"],
                    r["occupancy"],
                    r["bytes_a_load"],
                    r["lines_a_load"],
                    f"{r['loop_rounds']}: {r['loop']}",
                ]
            )
        return table(
            [
                "step",
                "kernel",
                "constants",
                "groups",
                "launches",
                "µs",
                "rules",
                "share",
                "memory",
                "issue",
                "pipe",
                "latency",
                "registers",
                "occupancy %",
                "bytes a load",
                "lines a load",
                "rounds: inner loop",
            ],
            lines,
        )

    # ---- published figures -----------------------------------------------------------------------------------------------------------

    def beside_published(self):
        lines = []
        for p in self.published.get("llama", []):
            card = next((c for c in self.cards if c["key"] == p["card"]), None)
            if card is None:
                continue
            name, step = p["step"].split("/")
            t = self.tokens(card, name, step, self.models[name]["steps"][step])
            if t:
                without = self.models[name]["steps"][step].get("tokens", 1) / t[0] * 1e3
                lines.append([card["name"], p["step"], p["backend"], number(p["tokens"]), number(t[3]), number(without), p["source"]])
        return table(["card", "step", "engine and back end", "its tokens/s", "predicted for clef", "without launch cost", "source"], lines)

    def summary(self):
        out = ["### Whole steps", ""] + self.whole_steps()
        out += ["### Launches", ""] + self.launches()
        out += ["### Beside published figures", ""] + self.beside_published()
        out += ["### Products of one row: share of the limit, and what rules", ""]
        out += self.kernels(("panel_gpu_gemv",), {"llama-3-8b/decode-4k", "llama-3-8b-q8_0/decode-0", "llama-3-8b-f16/decode-0"})
        out += ["### Products of 512 and of 8 rows", ""]
        out += self.kernels(("panel_gpu_gemm", "panel_gpu_few_mma"), {"llama-3-8b/prefill-512", "llama-3-8b-f16/prefill-512", "llama-3-8b/batch-8"})
        out += ["### Attention", ""]
        out += self.kernels(
            ("attention",),
            {"llama-3-8b/decode-0", "llama-3-8b/decode-4k", "llama-3-8b/decode-32k", "llama-3-8b/prefill-512", "llama-3-8b/batch-8"},
        )
        out += ["### Where most time is lost", ""]
        for card in self.cards:
            out += [f"#### {card['name']}", ""] + self.lost(card, 6)
        return out


def write_summary(path, lines):
    with open(path) as file:
        text = file.read()
    if BEGIN not in text or END not in text:
        sys.exit(f"speed: {path}: expected the lines {BEGIN} and {END}")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    with open(path, "w") as file:
        file.write(head + BEGIN + "\n\n" + "\n".join(lines) + "\n" + END + tail)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    report = Report(read(sys.argv[1]))
    with open(sys.argv[2], "w") as file:
        file.write("# Predicted speed\n\n" + "\n".join(report.summary()) + "\n")
        for card in report.cards:
            file.write(f"\n## {card['name']}\n\n### Where most time is lost\n\n" + "\n".join(report.lost(card, 30)))
            file.write("\n### All launches\n\n" + "\n".join(report.card_table(card)) + "\n")
    if len(sys.argv) == 4:
        write_summary(sys.argv[3], report.summary())


if __name__ == "__main__":
    main()
