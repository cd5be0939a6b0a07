#!/usr/bin/env python3
"""Holds a report of `clef bench --report` against predictions: those that the device's own measured limits give, and those of
the speed model's table for the card. `tools/offline --compare` runs it.

usage: compare_report.py REPORT [--table FILE] [--as CARD] [--model NAME]
  REPORT        the file (docs/drivers.md has its format)
  --table FILE  the table of predictions [tests/offline/speed.csv]: a CSV with a header. It needs the columns kernel, us (the
                predicted time of a launch), step (MODEL/decode-DEPTH or MODEL/prefill-TOKENS) and card. Where it has node, op,
                variant, groups (18x3x1) or group (work-items of one), these must fit the launch too; rule (what limits the
                launch) is printed. A row without a kernel has the time of the whole step
  --as CARD     the card of the table to compare with [the one that the device's name contains]
  --model NAME  the model of the table whose steps all models of the report are compared with [for each, the longest name that
                its own name contains]
"""
import csv
import json
import math
import os
import re
import sys
import tomllib

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "offline", "speed.csv")
CARDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "speed", "cards.toml")
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
    came = report.get("format") if isinstance(report, dict) else None
    if came != FORMAT:
        raise Wrong(f"{path}: expected the format '{FORMAT}', got {came!r}")
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
        row["model"], _, row["of"] = row["step"].rpartition("/")
    return rows


def plain(name):
    """A name without marks, blanks and case."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\((r|tm)\)", "", name.lower()))


def other_names():
    """By card: what drivers call it, such as gfx1100."""
    try:
        with open(CARDS, "rb") as f:
            return {card: [x["name"], x["target"]] for card, x in tomllib.load(f).items()}
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError):
        return {}


def longest_within(names, text):
    """The longest of the names that the text contains; None: none."""
    fits = [n for n in names if plain(n) and plain(n) in plain(text)]
    return max(fits, key=len, default=None)


def find_card(rows, device, wanted):
    """The device's card; None: the table has no such card."""
    cards = {row["card"] for row in rows}
    if wanted is not None and wanted not in cards:
        raise Wrong(f"--as {wanted}: expected one of {', '.join(sorted(cards))}")
    names = {n: card for card in cards for n in [card] + other_names().get(card, [])}
    return wanted or names.get(longest_within(names, device))


def find_model(rows, name, wanted):
    models = {row["model"] for row in rows}
    if wanted is not None and wanted not in models:
        raise Wrong(f"--model {wanted}: expected one of {', '.join(sorted(models))}")
    return wanted or longest_within(models, name)


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


def print_rates(path, model, rows):
    print(f"  {'':24} {'measured':>12} {'the limits allow':>18} {'share':>7}" + (f" {'the table says':>16} {'share':>7}" if rows else ""))
    for rate in model["rates"]:
        measured = number(rate["best_tok_s"], path, "best_tok_s")
        allowed = number(rate["predicted_tok_s"], path, "predicted_tok_s")
        tokens = 1 if rate["what"] == "decode" else rate["tokens"]
        step = step_of(f"{rate['what']} {tokens} after {rate['depth']}")
        line = f"  {rate['what'] + ' ' + str(rate['tokens']):24} {measured:12.2f} {allowed:18.2f} {share(measured, allowed)}"
        for row in rows:
            if not row["kernel"] and row["of"] == step and row["us"] > 0:
                line += f" {tokens * 1e6 / row['us']:16.2f} {share(measured, tokens * 1e6 / row['us'])}"
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
        print(f"{device}, {report['device']['driver']}, clef {report['clef']}")
        if rows is None:
            print("There is no table of predictions: measured times stand beside the device's own limits alone.")
        elif card is None:
            print("The table has no prediction for this device: measured times stand beside the device's own limits alone.")
        if report["failure"]:
            print(f"The report is not complete: {report['failure']}.")
        for model in report["models"]:
            print(f"\n{model['name']} ({model['arch']})")
            name = find_model(rows, model["name"], wanted_model) if card else None
            of_model = [row for row in rows if row["card"] == card and row["model"] == name] if name else []
            if name:
                print(f"  beside {name} on {card}, as the table predicts it")
            elif card:
                print(f"  the table has no model of that name for {card}; --model names another")
            print_rates(path, model, of_model)
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
