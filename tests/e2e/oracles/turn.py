"""CLEF_TEST_TURN=i/n: which entries of a long list run now."""
import os


def in_turn(number, count):
    """Whether entry `number` (from 0) of `count` runs, as is_in_turn() of tests/check.h says."""
    i, n = map(int, os.environ.get("CLEF_TEST_TURN", "1/1").split("/"))
    return number % n == (i - 1) % min(n, count)
