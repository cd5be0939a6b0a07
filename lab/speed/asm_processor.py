"""Reads the machine code that PoCL makes for x86-64 processors, finds the loop that does a kernel's products, and asks llvm-mca how
many cycles a round of it takes."""

import glob
import os
import re
import subprocess

LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*)$")
JUMP = re.compile(r"^j\w+\s+([0-9a-f]+)\b")
NAMED = re.compile(r"<[^>]*>")
VECTOR = re.compile(r"%([xyz])mm\d+")
WIDTH = {"x": 128, "y": 256, "z": 512}
ROUNDS = 100  # that llvm-mca follows


class Loop:
    """body: its instructions. products: multiply-adds of a round, in one lane for each. by_bytes: they are of bytes or pairs of
    halves, with sums of four or two products."""

    def __init__(self, body):
        self.body = body
        counts = [products_of(text) for text in body]
        dots = sum(n for n, is_dot in counts if is_dot)
        self.by_bytes = dots > 0
        self.products = dots or sum(n for n, _ in counts)


def products_of(text):
    """(multiply-adds of an instruction, whether it sums several of them into a lane)"""
    op = text.split()[0]
    vectors = VECTOR.findall(text)
    if not vectors:
        return 0, False
    bits = WIDTH[vectors[-1]]
    if op.startswith(("vpdpbusd", "vpdpbssd")):
        return bits // 8, True
    if op.startswith(("vpdpwssd", "vdpbf16ps")):
        return bits // 16, True
    if re.match(r"vfn?m(add|sub)\d+ps$", op):
        return bits // 32, False
    return 0, False


def instructions(path):
    """[(address, text)] of a library's code."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    found = (LINE.match(line) for line in listing.splitlines())
    return [(int(m[1], 16), m[2].split("#")[0].strip()) for m in found if m]


def innermost(code):
    """The loops that contain no other loop: from where a jump goes back to, up to the jump."""
    place = {address: i for i, (address, _) in enumerate(code)}
    spans = []
    for i, (address, text) in enumerate(code):
        jump = JUMP.match(text)
        if jump and int(jump[1], 16) <= address and int(jump[1], 16) in place:
            spans.append((place[int(jump[1], 16)], i))
    inner = [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] for o in spans)]
    return [Loop([text for _, text in code[a : b + 1]]) for a, b in inner]


def main_loop(cache, kernel):
    """Of all programs in PoCL's cache that have the kernel, the loop with the most products in a round; where some loops multiply
    bytes, one of those. None: there is none. Loops for what remains of a dimension are smaller, and so are those of norms."""
    loops = []
    for path in glob.glob(os.path.join(cache, "*", "*", kernel, "*", f"{kernel}.so")):
        loops += innermost(instructions(path))
    loops = [x for x in loops if x.products]
    return max(loops, key=lambda x: (x.by_bytes, x.products), default=None)


class Mca:
    """llvm-mca: path, the environment that it needs, and the processor that it is to assume."""

    def __init__(self, path, libraries, cpu="native"):
        self.path, self.cpu = path, cpu
        self.environment = {**os.environ, "LD_LIBRARY_PATH": libraries} if libraries else None

    def run(self, flags, text=""):
        return subprocess.run([self.path, *flags], input=text, capture_output=True, text=True, env=self.environment)

    def name(self):
        """The processor, as LLVM calls it."""
        if self.cpu != "native":
            return self.cpu
        found = re.search(r"Host CPU: (\S+)", self.run(["--version"]).stdout)
        return found[1] if found else "unknown"

    def cycles(self, loop):
        """Of a round. Jumps within the body are left out: they are predicted, and cost nothing beside the products."""
        text = "\n".join(NAMED.sub("", x) for x in loop.body if not x.startswith("j"))
        out = self.run([f"-mcpu={self.cpu}", f"-iterations={ROUNDS}", "-instruction-info=0", "-resource-pressure=0"], text)
        found = re.search(r"Total Cycles:\s+(\d+)", out.stdout)
        if not found:
            raise LookupError(f"llvm-mca: {(out.stderr or out.stdout).strip()[:200]}")
        return int(found[1]) / ROUNDS
