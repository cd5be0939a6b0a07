"""Puts tables into a page, between two marks."""

import sys


def write_between(path, begin, end, lines):
    with open(path) as file:
        text = file.read()
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        sys.exit(f"{path}: expected the lines {begin} and {end}, once each and in this order")
    with open(path, "w") as file:
        file.write(text.split(begin)[0] + begin + "\n\n" + "\n".join(lines) + "\n\n" + end + text.split(end)[1])
