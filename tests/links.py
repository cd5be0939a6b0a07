#!/usr/bin/env python3
"""Prints each link of README.md, CHANGELOG.md and docs/*.md that leads to no file of the tree or to no heading of a page.
usage: tests/links.py ROOT"""
import re
import sys
from pathlib import Path

LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")


def without_code(text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "``", text)


def anchors(path):
    """The names of a page's headings, as GitHub and the site make them."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S), re.M)
    heads = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head).lower() for head in heads]
    return {re.sub(r"[^\w\- ]", "", head).strip().replace(" ", "-") for head in heads}


def problems(root):
    for page in [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").glob("*.md"))]:
        for link in LINK.findall(without_code(page.read_text())):
            name, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            target = page.parent / name if name else page
            if not target.exists():
                yield f"{page.relative_to(root)}: {link}: no such file"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                yield f"{page.relative_to(root)}: {link}: no such heading"


print(*problems(Path(sys.argv[1])), sep="\n")
