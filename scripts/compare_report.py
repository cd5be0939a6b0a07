#!/usr/bin/env python3
"""Holds a report of `clef bench --report` against predictions: those that the device's own measured limits give, and those of
the speed model's table for the card. `tools/offline --compare` runs it.

usage: compare_report.py REPORT [--table FILE] [--as NAME]
  REPORT        the file (docs/drivers.md has its format)
  --table FILE  the table of predictions [tests/offline/speed.csv]: a CSV with a header. It needs the columns kernel, us (the
                predicted time of a launch) and card or target. To tell launches apart it uses those that there are of op,
                variant, step (whose name has prefill or decode), groups (18x3x1), group (work-items of one) and memory_bytes;
                rule (what limits the launch) is printed
  --as NAME     the card or target of the table to compare with [the one that the device's name contains]
"""
import csv
import json
import math
import os
import re
import sys

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "offline", "speed.csv")
FORMAT = "clef report 1"
NEAR = math.log(1.25)


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
    missing = [c for c in ("kernel", "us") if c not in columns]
    if missing or not {"card", "target"} & set(columns):
        raise Wrong(f"{path}: expected the columns kernel, us and card or target, got {', '.join(columns) or 'none'}")
    for i, row in enumerate(rows):
        for column in ("us", "memory_bytes"):
            try:
                row[column] = float(row.get(column) or ("" if column == "us" else 0))
            except ValueError:
                raise Wrong(f"{path}: row {i + 1}: {column}: expected a number, got {row[column]!r}") from None
    return rows


def plain(name):
    """A name without marks, blanks and case."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\((r|tm)\)", "", name.lower()))


def find_card(rows, device, wanted):
    """The rows of the device's card, and its name; empty and None: the table has no such card."""
    names = {row[c] for row in rows for c in ("card", "target") if row.get(c)}
    if wanted is not None and wanted not in names:
        raise Wrong(f"--as {wanted}: expected one of {', '.join(sorted(names))}")
    fits = [wanted] if wanted else sorted((n for n in names if plain(n) and plain(n) in plain(device)), key=len)
    if not fits:
        return [], None
    return [row for row in rows if fits[-1] in (row.get("card"), row.get("target"))], fits[-1]


def is_row_of(row, launch):
    """Of memory_bytes, what must come from memory, a launch's bytes are a little more or less."""
    for key in ("kernel", "op", "variant"):
        if key in row and (row[key] or "").strip("-") != launch[key]:
            return False
    what = launch["step"].split()[0]
    other = {"prefill": "decode", "decode": "prefill"}.get(what)
    if row.get("step") and other and other in row["step"]:
        return False
    if row.get("groups") and numbers(row["groups"]) != tuple(launch["groups"]):
        return False
    if row.get("group") and numbers(row["group"]) != (math.prod(launch["local"]),):
        return False
    return distance(row, launch) < NEAR


def distance(row, launch):
    """How far the bytes are apart, as the logarithm of their ratio; 0 where one is not known."""
    bytes_of_row = float(row.get("memory_bytes") or 0)
    return abs(math.log(bytes_of_row / launch["bytes"])) if bytes_of_row > 0 and launch["bytes"] > 0 else 0


def share(part, whole):
    return f"{100 * part / whole:5.0f} %" if whole > 0 else "      -"


def print_rates(path, model):
    print(f"  {'':24} {'measured':>12} {'the limits allow':>18} {'share':>7}")
    for rate in model["rates"]:
        measured = number(rate["best_tok_s"], path, "best_tok_s")
        allowed = number(rate["predicted_tok_s"], path, "predicted_tok_s")
        print(f"  {rate['what'] + ' ' + str(rate['tokens']):24} {measured:12.2f} {allowed:18.2f} {share(measured, allowed)} tok/s")


def print_launches(path, model, rows):
    """Returns how many launches have a prediction of the table."""
    n_found = 0
    print(f"  {'step':22} {'kernel':30} {'count':>5} {'us':>10} {'limits, us':>10} {'share':>7}" +
          (f" {'table, us':>10} {'share':>7} rule" if rows else ""))
    for launch in model["launches"]:
        us, least = (number(launch[k], path, k) for k in ("us", "least_us"))
        line = f"  {launch['step']:22} {launch['kernel']:30} {launch['count']:5} {us:10.2f} {least:10.2f} {share(least, us)}"
        found = min((row for row in rows if is_row_of(row, launch)), key=lambda row: distance(row, launch), default=None)
        if found:
            n_found += 1
            line += f" {found['us']:10.2f} {share(found['us'], us)} {found.get('rule') or ''}"
        print(line.rstrip())
    return n_found


def compare(path, table, wanted):
    report = read_report(path)
    try:
        device = report["device"]["name"]
        rows = read_table(table)
        card_rows, card = find_card(rows, device, wanted) if rows else ([], None)
        print(f"{device}, {report['device']['driver']}, clef {report['clef']}")
        if rows is None:
            print("There is no table of predictions: measured times stand beside the device's own limits alone.")
        elif card is None:
            print("The table has no prediction for this device: measured times stand beside the device's own limits alone.")
        else:
            print(f"Predictions are those for {card}.")
        if report["failure"]:
            print(f"The report is not complete: {report['failure']}.")
        n_found = n_all = 0
        for model in report["models"]:
            print(f"\n{model['name']} ({model['arch']})")
            print_rates(path, model)
            n_found += print_launches(path, model, card_rows)
            n_all += len(model["launches"])
        if card:
            print(f"\n{n_found} of {n_all} launches have a prediction.")
    except (KeyError, TypeError, AttributeError) as e:
        raise Wrong(f"{path}: a member is missing or of another type: {e}") from e


def main(args):
    path, table, wanted = None, TABLE, None
    while args:
        word = args.pop(0)
        if word in ("--table", "--as"):
            if not args:
                raise Wrong(f"{word}: expected a {'FILE' if word == '--table' else 'NAME'}")
            table, wanted = (args.pop(0), wanted) if word == "--table" else (table, args.pop(0))
        elif path is None:
            path = word
        else:
            raise Wrong(f"expected one REPORT, got '{word}' too")
    if path is None:
        raise Wrong("expected a REPORT, which clef bench --report writes")
    compare(path, table, wanted)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Wrong as wrong:
        sys.exit(f"offline: --compare: {wrong}")
    except BrokenPipeError:
        os._exit(1)
