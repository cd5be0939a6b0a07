#!/usr/bin/env python3
"""The structure of the tree: which rooms may use which, circles between folders, sizes of folders, lengths of functions
and widths of lines. usage: tests/structure.py [--table]     --table prints the written lines of each room, too

docs/ARCHITECTURE.md, "The house", says what the rooms are. An arrow is an #include."""

import os
import re
import subprocess
import sys
from collections import Counter, defaultdict

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORE = ["cl", "graph", "runtime", "model"]
# Each room, and the rooms that it may use. include/ is below all of them.
MAY_USE = {
    "cl": [],
    "graph": ["cl"],
    "runtime": ["cl", "graph"],
    "model": ["cl", "graph", "runtime"],
    "tools": [],  # the public headers alone
    "text": CORE + ["tools"],
    "ranks": CORE + ["tools"],
    "train": CORE + ["tools", "ranks"],
    "export": CORE + ["tools", "train"],
    "media": CORE + ["tools"],
    "lab": CORE + ["tools", "text", "train", "ranks", "export", "media"],
}
EXCEPTIONS = {
    "tools/cmd/cmd_perplexity.c": ["graph"],  # graph/hash.h, which is a header alone
    "tools/cmd/cmd_selftest.c": ["runtime"],  # clef_prove(), which child processes call, is not public
    "tools/absent/export.c": ["train"],  # plots, where train/ is built and export/ is not
}
MOST_FILES = 45  # in a folder
MEDIAN, P99, MOST_LINES = 10, 40, 100  # of a function
COLUMNS = 110
TOUR_FILES, TOUR_LINES = 12, 2500  # of docs/tour.md
WORDS = 40  # of a sentence of the docs
# Phrases that are not English, and words that the field has other words for.
BANNED = [
    (r"(?<![Tt]here )\b(is|are) no (?!longer|more|other|less|such|farther)[a-z]", "is not a"),
    (r"\bthe begin\b", "the start"),
    (r"\bwants an? ", "needs a"),
    (r"\bThe same of\b", "As f(), for"),
    (r"\b[Ss]e(t|ts|tting) back\b", "preempted"),
    (r"\b(is|are|was|were|be|been) told\b(?! (to|apart))", "is reported"),
    (r"\b[Pp]ick(s|ed|ing)\b(?!\.c)", "samples"),
    (r"\b(stands|stood)\b(?! (for|alone|still|out|apart)\b)(?!$)", "is"),
    (r"\bcame\b(?! (from|out|to)\b)", "got, or was received"),
]
CODE = (".c", ".h", ".cl", ".def")

failures = []
n_checks = 0


def check(name, problems):
    """One check: passes where there is no problem, and prints at most ten."""
    global n_checks
    n_checks += 1
    print(("ok " if not problems else "FAIL ") + name)
    for problem in problems[:10]:
        print("  " + problem)
    if len(problems) > 10:
        print(f"  and {len(problems) - 10} more")
    if problems:
        failures.append(name)


def files():
    """What git has of the tree. A release's archive is not a checkout: there nothing is checked."""
    try:
        listed = subprocess.run(["git", "-C", ROOT, "ls-files"], text=True, capture_output=True)
    except OSError as error:
        skip(str(error))
    names = listed.stdout.splitlines()
    if listed.returncode or "tests/structure.py" not in names:
        skip(listed.stderr.strip().split("\n")[0] or "git does not list tests/structure.py")
    return [name for name in names if os.path.isfile(os.path.join(ROOT, name))]


def skip(why):
    print(f"structure: skipped, expected a git checkout at {ROOT}: {why}")
    sys.exit(77)


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def folder(name):
    return os.path.dirname(name)


def arrows(names):
    """Pairs of files (from, to) of the rooms."""
    known = set(names)
    for name in names:
        if name.split("/")[0] in MAY_USE and name.endswith(CODE):
            for target in re.findall(r'^\s*#\s*include "([^"]+)"', read(name), re.M):
                if target in known:
                    yield name, target


def check_rooms(pairs):
    bad = []
    for source, target in pairs:
        room, used = source.split("/")[0], target.split("/")[0]
        allowed = MAY_USE[room] + [room, "include"] + EXCEPTIONS.get(source, [])
        if used not in allowed:
            bad.append(f"{source} uses {target}: {room}/ may use {', '.join(MAY_USE[room]) or 'include/ alone'}")
    check("rooms use what they may", bad)


def circles(pairs):
    """Strongly connected sets of folders, by Tarjan's algorithm."""
    after = defaultdict(set)
    for source, target in pairs:
        if folder(source) != folder(target):
            after[folder(source)].add(folder(target))
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(after[node]):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            members = []
            while True:
                members.append(stack.pop())
                if members[-1] == node:
                    break
            if len(members) > 1:
                found.append(sorted(members))

    for node in sorted(after):
        if node not in number:
            visit(node)
    return found


def functions(text):
    """Lines of the bodies of functions, whose braces are in the first column."""
    start = None
    for number, line in enumerate(text.split("\n"), 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            yield start, number - start - 1
            start = None


def check_functions(names):
    lengths, long = [], []
    for name in names:
        if name.endswith((".c", ".cl")) and name.split("/")[0] in MAY_USE:
            for line, n in functions(read(name)):
                lengths.append(n)
                if n > MOST_LINES:
                    long.append(f"{name}:{line}: {n} lines, expected at most {MOST_LINES}")
    lengths.sort()
    for share, most in ((0.5, MEDIAN), (0.99, P99)):
        n = lengths[int(share * len(lengths))]
        if n > most:
            long.append(f"{share:.0%} of {len(lengths)} functions have up to {n} lines, expected {most}")
    check("functions are short", long)


def check_lines(names):
    wide = []
    for name in names:
        if name.endswith(CODE):
            for number, line in enumerate(read(name).split("\n"), 1):
                if len(line) > COLUMNS:
                    wide.append(f"{name}:{number}: {len(line)} columns, expected at most {COLUMNS}")
    check("lines are narrow", wide)


def check_words(names):
    bad = []
    for name in names:
        if name.endswith((*CODE, ".md", ".py")) and name != "tests/structure.py":
            for number, line in enumerate(read(name).split("\n"), 1):
                bad += [f"{name}:{number}: '{m.group(0)}', expected '{better}'"
                        for pattern, better in BANNED for m in [re.search(pattern, line)] if m]
    check("plain words", bad)


def sentences(text):
    """Sentences of a page, without its code, tables and headings."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.S)
    text = "\n".join("" if re.match(r"\s*[|#]|    \S", line) else line for line in text.split("\n"))
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        yield from re.split(r"(?<=[.!?:;])\s+(?=[A-Z`*\[(→]|clef)", " ".join(part.split()))


def check_sentences(names):
    long = []
    for name in names:
        if name.endswith(".md"):
            long += [f"{name}: {len(s.split())} words: {s[:60]}" for s in sentences(read(name)) if len(s.split()) > WORDS]
    check("sentences are short", long)


def check_tour(names):
    tour = re.findall(r"^\d+\. \[`([^`]+)`\]\(\.\./([^)]+)\)", read("docs/tour.md"), re.M)
    bad = [f"docs/tour.md: {shown} leads to {target}" for shown, target in tour if shown != target]
    bad += [f"docs/tour.md: no file {target}" for _, target in tour if target not in names]
    n_lines = sum(read(target).count("\n") for _, target in tour if target in names)
    if len(tour) != TOUR_FILES or n_lines > TOUR_LINES:
        bad.append(f"docs/tour.md: {len(tour)} files with {n_lines} lines, expected {TOUR_FILES} with at most {TOUR_LINES}")
    check("the tour's files exist, and are few", bad)


def print_table(names):
    lines = Counter()
    for name in names:
        if name.endswith((".c", ".h", ".cl", ".def", ".py")):
            lines["tests" if name.startswith("python/tests/") else name.split("/")[0]] += read(name).count("\n")
    for room, n in sorted(lines.items()):
        print(f"{room:10} {n:7}")
    print(f"{'product':10} {sum(n for room, n in lines.items() if room not in ('tests', 'lab', 'examples')):7}")


def main():
    if sys.argv[1:] not in ([], ["--table"]):
        sys.exit(f"structure.py: expected nothing or --table, got {' '.join(sys.argv[1:])}")
    names = files()
    pairs = list(arrows(names))
    check_rooms(pairs)
    check("no circles between folders", [" <-> ".join(members) for members in circles(pairs)])
    sizes = Counter(folder(name) for name in names)
    check("folders are small", [f"{name or '.'}: {n} files, expected at most {MOST_FILES}" for name, n in sizes.items() if n > MOST_FILES])
    check_functions(names)
    check_lines(names)
    check_words(names)
    check_sentences(names)
    check_tour(names)
    if sys.argv[1:]:
        print_table(names)
    print(f"{n_checks - len(failures)} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
