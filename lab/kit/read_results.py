#!/usr/bin/env python3
"""Reads what a run of the kit brought back: which steps went well, what the probes say, which kernels are wrong, and measured times beside
predicted ones (lab/compare_report.py). The exit code is 1 where the results are not whole.

usage: read_results.py FOLDER [--brief]     --brief: without the reports"""

import csv
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_FILES, MOST_BYTES = 8, 16 * 1024 * 1024
EVERY = ("drivers", "list", "info", "devices", "cache")  # steps of every run


class Wrong(Exception):
    """What is wrong with the results, as a sentence."""


def read_text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as e:
        raise Wrong(f"{path}: {e.strerror}") from e


def read_steps(path):
    """{name: (exit code as text, seconds)}"""
    rows = list(csv.reader(read_text(path).splitlines()))
    if not rows or rows[0] != ["at", "step", "exit", "seconds"] or any(len(row) != 4 for row in rows):
        raise Wrong(f"{path}: expected rows of at, step, exit and seconds")
    return {name: (code, seconds) for _, name, code, seconds in rows[1:]}


def read_log(path):
    """{name of a step: what it printed}"""
    parts = re.split(r"^== (\S+): exit \S+ after \d+ s\n", read_text(path), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def check_files(folder):
    names = os.listdir(folder)
    if len(names) > MOST_FILES:
        raise Wrong(f"{folder}: expected at most {MOST_FILES} files, got {len(names)}")
    for name in names:
        size = os.path.getsize(os.path.join(folder, name))
        if size > MOST_BYTES:
            raise Wrong(f"{folder}/{name}: expected at most {MOST_BYTES} bytes, got {size}")


def print_steps(steps):
    good = [name for name, (code, _) in steps.items() if code == "0"]
    late = [name for name, (code, _) in steps.items() if code == "-"]
    print(f"{len(steps)} steps, {len(good)} went well, {len(late)} got no time")
    for name, (code, seconds) in steps.items():
        if code not in ("0", "-"):
            what = {"124": "reached its time limit", "137": "was killed", "127": "was not found"}.get(code, f"exit {code}")
            print(f"  {name}: {what} after {seconds} s")


def print_device(folder):
    """The numbers by which devices are chosen, as rows of tests/runtime's table want them."""
    try:
        devices = json.loads(read_text(os.path.join(folder, "devices.json")))
    except (Wrong, ValueError):
        print("devices.json: nothing that can be read")
        return
    for device in devices:
        print("device " + ", ".join(f"{key} {value}" for key, value in device.items() if not isinstance(value, (dict, list))))


def print_probes(log):
    for name, text in log.items():
        if name.startswith("probe_"):
            for line in text.strip().splitlines():
                if re.match(r"[a-z0-9_]+: ", line) and ": log: " not in line:
                    print(f"  {line}")


def wrong_variants(log):
    """(op, line) of selftest's rows with a verdict that is not "ok", and not one of a variant that the device cannot have."""
    for name, text in log.items():
        if name.startswith("selftest_"):
            for line in text.splitlines():
                if re.match(r"\w+ +\S+ +(yes|no) +\d+ ", line) and not re.search(r"\b(ok|unfit.*|untested.*)$", line):
                    yield name[len("selftest_"):], line


def main(args):
    brief = "--brief" in args
    args = [arg for arg in args if arg != "--brief"]
    if len(args) != 1:
        sys.exit(__doc__)
    folder = args[0]
    check_files(folder)
    steps, log = read_steps(os.path.join(folder, "steps.csv")), read_log(os.path.join(folder, "log.txt"))
    missing = [name for name in EVERY if name not in steps] + [name for name in steps if name not in log]
    if missing:
        raise Wrong(f"{folder}: expected a result of each step, found none of {', '.join(missing)}")
    print_steps(steps)
    print_device(folder)
    print_probes(log)
    for op, line in wrong_variants(log):
        print(f"wrong: {op}: {line}")
    for name in sorted(os.listdir(folder)):
        if name.startswith("report-") and not brief:
            subprocess.run([sys.executable, os.path.join(HERE, "..", "compare_report.py"), os.path.join(folder, name)], check=False)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Wrong as wrong:
        sys.exit(f"read_results: {wrong}")
