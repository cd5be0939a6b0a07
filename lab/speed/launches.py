"""Launches, as lab/kernels/list_launches.c writes them."""

import math
import struct

from machine import BUFFER_SHIFT


class Buffer:
    """n_bytes: of the value behind it. is_stored: a weight or a cache, which a step reads from memory. words: None, or the name
    of a value of whole numbers."""

    __slots__ = ("n_bytes", "is_stored", "words")

    def __init__(self, text):
        size, _, name = text[1:].partition(":")
        self.n_bytes = int(size)
        self.is_stored = text[0] == "w"
        self.words = name if name else None


class Launch:
    """One launch on one card. key: what its time depends on. count: how many of them the step has. scalars: arguments by value
    other than the argument block, by their index."""

    scalars = {}

    def __init__(self, line):
        f = line.split()
        self.card, self.step, self.program, self.kernel, self.op, self.variant = f[:6]
        self.count = int(f[6])
        self.groups = tuple(int(x) for x in f[7:10])
        self.local = tuple(int(x) for x in f[10:13])
        self.flops, self.bytes = float(f[13]), float(f[14])
        self.node = f[15]
        self.depth = int(f[16])
        self.args = b"" if f[17] == "-" else bytes.fromhex(f[17])
        self.buffers = [None if x == "-" else Buffer(x) for x in f[18:]]
        self.target = None
        self.key = tuple(f[2:4] + f[7:13] + f[16:])

    @property
    def n_groups(self):
        return self.groups[0] * self.groups[1] * self.groups[2]

    @property
    def items(self):
        return self.local[0] * self.local[1] * self.local[2]

    def n_waves(self, lanes):
        """Of a group."""
        return math.ceil(self.items / lanes)

    def pointers(self):
        return [0 if b is None else (i + 1) << BUFFER_SHIFT for i, b in enumerate(self.buffers)]

    def parameters(self):
        """The kernel's arguments, laid out as C does: the argument block, then pointers of eight bytes."""
        out = bytearray(self.args)
        if out:
            out += bytes(-len(out) % 8)
        for p in self.pointers():
            out += struct.pack("<Q", p)
        return bytes(out)


def read(path):
    with open(path) as file:
        return [Launch(line) for line in file]
