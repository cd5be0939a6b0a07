"""What lab/offline kept of a compilation: a kernel's registers, and its assembly."""

import gzip
import os


class Kept:
    """folder: of the results. sums: file of lines "PROGRAM SUM". compilers: file of lines "TARGET COMPILER.TARGET"."""

    def __init__(self, folder, sums, compilers):
        self.folder = folder
        self.sum = dict(line.split() for line in open(sums))
        self.compiler = dict(line.split() for line in open(compilers))

    def path(self, program, target):
        return os.path.join(self.folder, f"{self.sum[program]}.{self.compiler[target]}")

    def figures(self, program, target, kernel):
        """{registers, spilled, stack, local, x}: x is AMD's occupancy in waves, or Intel's SIMD width. None: not compiled."""
        path = self.path(program, target)
        if not os.path.exists(path):
            return None
        for line in open(path):
            f = line.split()
            if f[0] == kernel:
                return dict(zip(("registers", "spilled", "stack", "local", "x"), map(int, f[1:])))
        return None

    def assembly(self, program, target):
        path = self.path(program, target) + ".gz"
        if not os.path.exists(path):
            return None
        with gzip.open(path, "rt", errors="replace") as file:
            return file.read()
