#!/usr/bin/env python3
"""Holds a report of `clef bench --report` against predictions: those that the device's own measured limits give, and those of
the speed model's table for the card. `lab/offline --compare` runs it.

usage: compare_report.py REPORT [--table FILE] [--as CARD] [--model NAME]
  REPORT        the file (docs/drivers.md has its format)
  --table FILE  the table of predictions [lab/kernels/speed.csv]: a CSV with a header. It needs the columns kernel, us (the
                predicted time of one launch), step (MODEL/decode-DEPTH or MODEL/prefill-TOKENS) and card. Where it has node,
                op, variant, groups (18x3x1) or group (work-items of one), these must fit the launch too; rule (what limits
                the launch) is printed. A row without a kernel has the time of all kernels of the step. Where it has count (the
                step's launches), their cost on the card is added (lab/speed/cards.toml, launch_us)
  --as CARD     the card of the table to compare with [the one whose name is among the words of the device's name]
  --model NAME  the model of the table whose steps all models of the report are compared with [for each, the one with its
                layers, width, vocabulary and dtype; of models that lab/speed/steps.toml does not have, the one whose name
                is among the words of its own name]
"""
import csv
import json
import math
import os
import re
import sys

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = os.path.join(HERE, "kernels")
TABLE = os.path.join(KERNELS, "speed.csv")
FORMAT = "clef report 1"


class Wrong(Exception):
    """What is wrong with an input, as a sentence."""


def read_report(path):
    try:
        with open(path, encoding="utf-8") as f:
            report = json.load(f)
    except OSError as e:
        raise Wrong(f"{path}: {e.strerror}") from e
    except ValueError as e:
        raise Wrong(f"{path}: expected a report of clef bench --report, which is JSON: {e}") from e
    got = report.get("format") if isinstance(report, dict) else None
    if got != FORMAT:
        raise Wrong(f"{path}: expected the format '{FORMAT}', got {got!r}")
    return report


def number(x, path, what):
    if isinstance(x, bool) or not isinstance(x, (int, float)) or not math.isfinite(x):
        raise Wrong(f"{path}: {what}: expected a number, got {x!r}")
    return float(x)


def numbers(text):
    """The whole numbers of a cell: "18 3 1", "18x3x1" or [18, 3, 1]."""
    return tuple(int(x) for x in re.findall(r"\d+", str(text)))


def read_table(path):
    """None: there is no table."""
    try:
        with open(path, encoding="utf-8", newline="") as f:
            rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as e:
        raise Wrong(f"{path}: {e}") from e
    columns = rows[0].keys() if rows else ()
    if not {"kernel", "us", "step", "card"} <= set(columns):
        raise Wrong(f"{path}: expected the columns card, step, kernel and us, got {', '.join(columns) or 'none'}")
    for i, row in enumerate(rows):
        try:
            row["us"] = float(row["us"])
        except (TypeError, ValueError):
            raise Wrong(f"{path}: row {i + 1}: us: expected a number, got {row['us']!r}") from None
        if row.get("count"):
            if not row["count"].isdigit():
                raise Wrong(f"{path}: row {i + 1}: count: expected a number of launches, got {row['count']!r}")
            row["count"] = int(row["count"])
        row["model"], _, row["of"] = row["step"].rpartition("/")
    return rows


def load_toml(name):
    """A file of lab/speed. Nothing where Python is older than 3.11, which main() says."""
    if not tomllib:
        return {}
    path = os.path.join(HERE, "speed", name)
    try:
        with open(path, "rb") as f:
            return tomllib.load(f)
    except (OSError, tomllib.TOMLDecodeError) as e:
        raise Wrong(f"{path}: {e}") from e


def is_among_words(name, text):
    """Whether the name is in the text as whole words, whatever their case and what separates them: "RTX 4090" has rtx4090,
    "RTX A1000" has no a100."""
    name, text = (re.sub(r"\((r|tm)\)", " ", x.lower()) for x in (name, text))
    parts = re.findall(r"[a-z]+|[0-9]+", name)
    pattern = ""
    for i, part in enumerate(parts):
        if i:
            pattern += r"[^a-z0-9]+" if part.isdigit() == parts[i - 1].isdigit() else r"[^a-z0-9]*"
        pattern += part
    return bool(parts) and re.search(rf"(?<![a-z0-9]){pattern}(?![a-z0-9])", text) is not None


def find_card(rows, device, wanted):
    """The device's card; None: the table has no such card."""
    cards = {row["card"] for row in rows}
    if wanted is not None and wanted not in cards:
        raise Wrong(f"--as {wanted}: expected one of {', '.join(sorted(cards))}")
    known = load_toml("cards.toml")
    names = {n: card for card in sorted(cards) for n in (card, known.get(card, {}).get("name"), known.get(card, {}).get("target")) if n}
    fits = [n for n in names if is_among_words(n, device)]
    return wanted or names.get(max(fits, key=len, default=None))


def shapes():
    """{model of steps.toml: (layers, width, vocabulary, dtype)}"""
    out = {}
    for name, model in load_toml("steps.toml").items():
        path = os.path.join(KERNELS, "shapes", model["shape"] + ".json")
        try:
            with open(path, encoding="utf-8") as f:
                x = json.load(f)
        except (OSError, ValueError) as e:
            raise Wrong(f"{path}: {e}") from e
        layers, width = x.get("num_hidden_layers") or x.get("n_layer"), x.get("hidden_size") or x.get("n_embd")
        out[name] = (layers, width, x["vocab_size"], model["dtype"])
    return out


def find_model(rows, model, wanted):
    names = {row["model"] for row in rows}
    if wanted is not None and wanted not in names:
        raise Wrong(f"--model {wanted}: expected one of {', '.join(sorted(names))}")
    known = shapes()
    shape = tuple(model.get(key) for key in ("n_layers", "d_model", "n_vocab", "dtype"))

    def fits(name):
        return known[name] == shape if name in known else is_among_words(name, model["name"])

    return wanted or max(filter(fits, sorted(names)), key=len, default=None)


def step_of(text):
    """"decode 1 after 4096" is the table's decode-4k, "prefill 512 after 0" its prefill-512."""
    what, tokens, _, depth = text.split()
    n = int(depth if what == "decode" else tokens)
    return f"{what}-{n // 1024}k" if what == "decode" and n and n % 1024 == 0 else f"{what}-{n}"


def is_row_of(row, launch):
    for key in ("kernel", "node", "op", "variant"):
        if key in row and (row[key] or "").strip("-") != launch[key]:
            return False
    if row["of"] != step_of(launch["step"]):
        return False
    if row.get("groups") and numbers(row["groups"]) != tuple(launch["groups"]):
        return False
    return not row.get("group") or numbers(row["group"]) == (math.prod(launch["local"]),)


def share(part, whole):
    return f"{100 * part / whole:5.0f} %" if whole > 0 else "      -"


def print_rates(path, model, rows, launch_us):
    """launch_us: what a launch costs on the card beside its kernel; None: not known."""
    with_launches = launch_us is not None and all(row.get("count") for row in rows if not row["kernel"])
    said = "the table says" if with_launches else "kernels alone"
    print(f"  {'':24} {'measured':>12} {'the limits allow':>18} {'share':>7}" + (f" {said:>16} {'share':>7}" if rows else ""))
    for rate in model["rates"]:
        measured = number(rate["best_tok_s"], path, "best_tok_s")
        allowed = number(rate["predicted_tok_s"], path, "predicted_tok_s")
        tokens = 1 if rate["what"] == "decode" else rate["tokens"]
        step = step_of(f"{rate['what']} {tokens} after {rate['depth']}")
        line = f"  {rate['what'] + ' ' + str(rate['tokens']):24} {measured:12.2f} {allowed:18.2f} {share(measured, allowed)}"
        for row in rows:
            if not row["kernel"] and row["of"] == step and row["us"] > 0:
                us = row["us"] + row["count"] * launch_us if with_launches else row["us"]
                line += f" {tokens * 1e6 / us:16.2f} {share(measured, tokens * 1e6 / us)}"
        print(line + " tok/s")


def print_launches(path, model, rows):
    """Returns how many launches have a prediction of the table."""
    n_found = 0
    print(f"  {'step':22} {'kernel':30} {'count':>5} {'us':>10} {'limits, us':>10} {'share':>7}" +
          (f" {'table, us':>10} {'share':>7} rule" if rows else ""))
    for launch in model["launches"]:
        us, least = (number(launch[k], path, k) for k in ("us", "least_us"))
        line = f"  {launch['step']:22} {launch['kernel']:30} {launch['count']:5} {us:10.2f} {least:10.2f} {share(least, us)}"
        found = next((row for row in rows if is_row_of(row, launch)), None)
        if found:
            n_found += 1
            line += f" {found['us']:10.2f} {share(found['us'], us)} {found.get('rule') or ''}"
        print(line.rstrip())
    return n_found


def compare(path, table, wanted, wanted_model):
    report = read_report(path)
    try:
        device = report["device"]["name"]
        rows = read_table(table)
        card = find_card(rows, device, wanted) if rows else None
        of_card = load_toml("cards.toml").get(card, {})
        print(f"{device}, {report['device']['driver']}, clef {report['clef']}")
        if rows and not tomllib:
            print("Python is older than 3.11: cards and models are looked up by the table's own names alone.")
        units, n_units = of_card.get("units_reported"), report["device"]["capabilities"]["n_units"]
        if units and units != n_units:
            print(f"Another number of compute units: the device has {n_units}, {of_card['name']} has {units}. It may be another card.")
        if rows is None:
            print("There is no table of predictions: measured times stand beside the device's own limits alone.")
        elif card is None:
            print("The table has no prediction for this device: measured times stand beside the device's own limits alone.")
        if report["failure"]:
            print(f"The report is not complete: {report['failure']}.")
        for model in report["models"]:
            print(f"\n{model['name']} ({model['arch']})")
            name = find_model(rows, model, wanted_model) if card else None
            of_model = [row for row in rows if row["card"] == card and row["model"] == name] if name else []
            if name:
                print(f"  beside {name} on {card}, as the table predicts it")
            elif card:
                print(f"  the table has no such model for {card}; --model names another")
            print_rates(path, model, of_model, of_card.get("launch_us"))
            n = print_launches(path, model, of_model)
            if name:
                print(f"  {n} of {len(model['launches'])} kinds of launches have a prediction")
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise Wrong(f"{path}: a member is missing or of another type: {e}") from e


def main(args):
    path, options = None, {"--table": TABLE, "--as": None, "--model": None}
    while args:
        word = args.pop(0)
        if word in options:
            if not args:
                raise Wrong(f"{word}: expected a value")
            options[word] = args.pop(0)
        elif word in ("--help", "-h"):
            print(__doc__)
            return
        elif word.startswith("--"):
            raise Wrong(f"expected a REPORT, {', '.join(options)} or --help, got '{word}'")
        elif path is None:
            path = word
        else:
            raise Wrong(f"expected one REPORT, got '{word}' too")
    if path is None:
        raise Wrong("expected a REPORT, which clef bench --report writes")
    compare(path, options["--table"], options["--as"], options["--model"])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Wrong as wrong:
        sys.exit(f"offline: --compare: {wrong}")
    except BrokenPipeError:
        os._exit(1)
