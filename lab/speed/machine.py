"""What the three kinds of machine code have in common: an instruction, and a wave that executes code.

A wave holds a value for each register: an int where all lanes have the same, a list with an int for each lane, or None where
it is not known (numbers that were loaded from memory, and all floats). Whole numbers are followed exactly, since arguments,
sizes of groups and the places of buffers are given. So a wave knows how often each loop runs and which addresses each load
takes. What it does not know is data. A branch that depends on data falls through."""

MASK = 0xFFFFFFFF


class Instruction:
    """One instruction. kind: see pipes.py. dst, src: names of registers. bytes: what each lane loads or stores."""

    __slots__ = (
        "op",
        "text",
        "kind",
        "dst",
        "src",
        "bytes",
        "target",
        "operands",
        "mods",
        "guard",
        "work",
        "index",
        "run",
        "width",
        "labels",
        "extra",
        "whole",
    )

    def __init__(self, text, index):
        self.text = text
        self.index = index
        self.op = ""
        self.kind = "int"
        self.dst = ()
        self.src = ()
        self.bytes = 0
        self.target = None  # index of the instruction that a branch goes to
        self.operands = ()
        self.mods = ()
        self.guard = None  # the predicate that it is executed under
        self.work = 0  # multiply-adds of a lane
        self.run = None  # the wave's method that executes it
        self.width = 0
        self.labels = ()
        self.extra = None
        self.whole = 0  # bytes of a message that moves a block for the whole wave

    @property
    def multiplies_bytes(self):
        """Whether a unit for small matrices multiplies bytes by it, and no halves."""
        return self.op == "IMMA" or "iu8" in self.op or "i8" in self.op or self.mods == ("bytes",)


def signed(x):
    return x - 0x100000000 if x & 0x80000000 else x


def lift1(f, a):
    if a is None:
        return None
    if type(a) is list:
        return [f(x) for x in a]
    return f(a)


def lift2(f, a, b):
    if a is None or b is None:
        return None
    if type(a) is list:
        if type(b) is list:
            return [f(x, y) for x, y in zip(a, b)]
        return [f(x, b) for x in a]
    if type(b) is list:
        return [f(a, y) for y in b]
    return f(a, b)


def lift3(f, a, b, c):
    if a is None or b is None or c is None:
        return None
    if type(a) is not list and type(b) is not list and type(c) is not list:
        return f(a, b, c)
    n = len(a) if type(a) is list else len(b) if type(b) is list else len(c)
    a = a if type(a) is list else [a] * n
    b = b if type(b) is list else [b] * n
    c = c if type(c) is list else [c] * n
    return [f(x, y, z) for x, y, z in zip(a, b, c)]


def low(v):
    return lift1(lambda x: x & MASK, v)


def any_lane(v):
    """Of a predicate: whether a lane has it; None where it is not known."""
    return any(v) if type(v) is list else v


def all_lanes(v):
    return all(v) if type(v) is list else v


class Memory:
    """What is known of memory: byte strings at addresses, such as argument blocks."""

    def __init__(self):
        self.blocks = []

    def add(self, address, data):
        self.blocks.append((address, bytes(data)))

    def read(self, address, n):
        """The little-endian number there, or None."""
        for base, data in self.blocks:
            if base <= address and address + n <= base + len(data):
                return int.from_bytes(data[address - base : address - base + n], "little")
        return None


BUFFER_SHIFT = 36  # buffer i of a launch begins at (i + 1) << BUFFER_SHIFT: an address tells its buffer


def buffer_of(address):
    return (address >> BUFFER_SHIFT) - 1


def known_words(launch):
    """What buffers of whole numbers hold: {buffer: function of a word's place}. The position is the step's; runs and pages are
    those of sequences of equal length; ids, chosen experts and sampled rows are 0, which costs what any other would."""
    known = {}
    for i, b in enumerate(launch.buffers):
        if b is None or b.words is None:
            continue
        if b.words == "pos":
            known[i] = lambda at, depth=launch.depth: depth
        elif b.words == "runs":
            known[i] = lambda at: (at // 3, at // 3, 1)[at % 3]
        elif b.words.endswith("pages"):
            known[i] = lambda at: at % 64
        elif any(b.words.endswith(x) for x in ("ids", "chosen", "samples")):
            known[i] = lambda at: 0
    return known


class Stop(Exception):
    """The code cannot be followed further; the text says why."""


CALLS = ("CALL", "RET")  # of functions: going back to where one was called is not a loop


class Wave:
    """Executes code. A subclass knows one instruction set: it sets self.code (instructions), self.state (registers by name)
    and has `step(instruction)`, which returns the index of the next instruction, or None at the end.

    `clock` hears of each executed instruction: clock.take(instruction, addresses), where addresses is None or a list of the
    lanes' byte addresses (of active lanes alone)."""

    most_steps = 1_000_000

    def __init__(self, code, lanes, clock):
        self.code = code
        self.lanes = lanes
        self.clock = clock
        self.state = {}
        self.compares = None  # while a loop is watched: operands of its compares in the present round
        self.rounds = {}  # index of a branch back: how often it was taken
        self.unknown = 0  # branches that depended on data
        self.watches = {}
        self.words = {}  # known_words()

    def load_words(self, addresses, n):
        """n words from each lane's address (a list, or one number for all): a list of n values, None where memory is not known."""
        first = addresses[0] if type(addresses) is list else addresses
        of = self.words.get(buffer_of(first)) if first is not None else None
        if of is None:
            return [None] * n
        start = (buffer_of(first) + 1) << BUFFER_SHIFT
        return [lift1(lambda a: of((a - start) // 4 + i) & MASK, addresses) for i in range(n)]

    def compared(self, instruction, a, b):
        """A subclass calls it for each compare of whole numbers."""
        if self.compares is not None:
            self.compares.append((instruction.index, a, b))

    def execute(self, start=0):
        at, steps = start, 0
        self.compares = []
        while at is not None and at < len(self.code):
            instruction = self.code[at]
            after = self.step(instruction)
            steps += 1
            if steps > self.most_steps:
                raise Stop(f"more than {self.most_steps} instructions were executed")
            if after is not None and after <= at and instruction.op not in CALLS:
                self.rounds[at] = self.rounds.get(at, 0) + 1
                if self.rounds[at] > 2_000_000:
                    raise Stop(f"a loop at {instruction.text} has no end")
                if self.watch(at):
                    after = at + 1
            at = after
        self.compares = None

    # ---- loops: after a few rounds, the rounds that remain are skipped ----------------------------------------------------------

    def watch(self, branch):
        """Called where the branch back at `branch` is taken. Skips rounds once three of them were alike. Returns True where such a
        loop would never end: its end depends on data, so it is left."""
        head = self.code[branch].target
        for inner in [b for b in self.watches if head <= b < branch]:
            del self.watches[inner]
        watched = self.watches.setdefault(branch, [])
        start = watched[-1]["end"] if watched else len(self.compares)
        snapshot = {
            "state": dict(self.state),
            "compares": self.compares[start:],
            "end": len(self.compares),
            "clock": self.clock.snapshot(),
            "path": self.clock.n_taken,
        }
        watched.append(snapshot)
        if len(watched) < 4:
            return False
        del watched[:-4]
        n = self.rounds_alike(watched)
        if n is None:
            self.unknown += 1
            self.watches[branch] = []
            return True
        if n < 2:
            return False
        first, second = watched[-2], watched[-1]
        for name, value in list(self.state.items()):
            self.state[name] = after_rounds(first["state"].get(name), value, n)
        self.clock.skip(first["clock"], second["clock"], n)
        self.rounds[branch] += n
        self.watches[branch] = []
        return False

    def rounds_alike(self, watched):
        """How many rounds like the last three follow: until a compare of whole numbers in them gives another answer. None: none
        of them ever does. 0: they are not alike."""
        b, c, d = (watched[i]["compares"] for i in (1, 2, 3))
        if [x[0] for x in b] != [x[0] for x in c] or [x[0] for x in c] != [x[0] for x in d]:
            return 0
        taken = [watched[i]["path"] - watched[i - 1]["path"] for i in (1, 2, 3)]
        if len(set(taken)) != 1:
            return 0
        least = None
        for (_, a1, b1), (_, a2, b2), (_, a3, b3) in zip(b, c, d):
            n = until_change(a1, a2, a3, b1, b2, b3)
            if n == 0:
                return 0
            if n is not None:
                least = n if least is None else min(least, n)
        return None if least is None else least - 1


def ends_of(v):
    if type(v) is list and not v:
        return (0, 0)
    return (v[0], v[-1]) if type(v) is list else (v, v)


def until_change(a1, a2, a3, b1, b2, b3):
    """Rounds until the order of a and b changes, if both go on as in the last two rounds; None: it does not change, or it is
    not known. 0: they do not go on evenly."""
    if a1 is None or a2 is None or a3 is None or b1 is None or b2 is None or b3 is None:
        return None
    for v1, v2, v3 in ((a1, a2, a3), (b1, b2, b3)):
        if type(v1) is list and not (type(v2) is list and type(v3) is list and len(v1) == len(v2) == len(v3)):
            return 0  # other lanes run
    least = None
    for x1, x2, x3, y1, y2, y3 in zip(ends_of(a1), ends_of(a2), ends_of(a3), ends_of(b1), ends_of(b2), ends_of(b3)):
        d, e = (x2 - y2) - (x1 - y1), (x3 - y3) - (x2 - y2)
        if d != e:
            return 0
        if e == 0:
            continue
        now = x3 - y3
        if (now > 0) == (e > 0) and now != 0:
            continue  # they part
        n = (abs(now) + abs(e) - 1) // abs(e)  # rounds until they are equal or have passed each other
        least = n if least is None else min(least, n)
    return least


def after_rounds(before, now, n):
    """A register n rounds on, if each round changes it as the last did."""
    if before is None or now is None or before is now:
        return now
    if type(now) is bool or type(before) is bool:
        return now
    if type(now) is not list and type(before) is not list:
        return (now + n * (now - before)) & MASK
    if type(now) is list and now and type(now[0]) is bool:
        return now
    if type(now) is list and type(before) is list:
        if None in now or None in before:
            return [None if x is None or y is None else (y + n * (y - x)) & MASK for x, y in zip(before, now)]
        return [(y + n * (y - x)) & MASK for x, y in zip(before, now)]
    return now
