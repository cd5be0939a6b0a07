"""What an instruction costs: cycles of the pipes that it takes, and how long its result takes.

Kinds of instructions, which the readers of machine code (asm_*.py) give:
  load store local_load local_store spill   memory
  fma half dot matrix double                multiply-adds of f32, pairs of f16, four bytes, small matrices, f64
  convert pack special                      between numbers and floats on the slow unit and on the fast one; exp, 1/x ..
  int mad multiply                          whole numbers: simple ones, multiply-adds, products of 32 bits
  scalar uniform constant read shuffle      for a whole wave; arguments; special registers; between lanes
  control barrier wait

Pipes "local" and "cache" belong to a multiprocessor, all others to one of its schedulers."""

import cards

OF_UNIT = ("local", "cache")

# Cycles until a result can be used, by vendor. Sources: NVIDIA: Luo et al., arXiv:2402.13499, and Jia et al., arXiv:1804.06826;
# AMD: the instruction set guides (dependent instructions of RDNA: 5 cycles; of GCN and CDNA: as long as an issue takes);
# Intel: estimates, without a source.
LATENCY = {
    "nvidia": {"": 5, "local_load": 30, "shuffle": 24, "special": 22, "convert": 22, "matrix": 33, "read": 20, "constant": 8, "double": 40},
    "amd_wave32": {
        "": 5,
        "local_load": 55,
        "shuffle": 55,
        "special": 10,
        "matrix": 40,
        "constant": 100,
        "scalar": 4,
        "multiply": 8,
        "double": 24,
    },
    "amd_wave64": {
        "": 4,
        "local_load": 80,
        "shuffle": 80,
        "special": 16,
        "matrix": 40,
        "constant": 130,
        "scalar": 4,
        "multiply": 16,
        "double": 8,
    },
    "intel": {"": 10, "local_load": 60, "shuffle": 20, "special": 20, "matrix": 32, "constant": 60},
}


class Costs:
    """Of one card's instructions, for waves of `lanes`."""

    def __init__(self, card, lanes):
        self.card = card
        self.target = card["target"]
        self.vendor = cards.vendor(self.target)
        self.lanes = lanes
        self.family = self.vendor if self.vendor != "amd" else "amd_wave32" if lanes == 32 else "amd_wave64"
        self.latency_of = LATENCY[self.family]
        matrix = card.get("matrix", {})
        self.matrix = {k: v / card["simds"] for k, v in matrix.items()}  # multiply-adds of a scheduler in a clock
        self.pipes = getattr(self, "_" + self.family)

    def latency(self, ins):
        return self.latency_of.get(ins.kind, self.latency_of[""])

    def matrix_cycles(self, ins):
        """All of a wave's multiply-adds."""
        rate = self.matrix["bytes" if ins.multiplies_bytes else "halves"]
        share = 0.62 if self.target == "sm_90" else 1.0  # of mma.sync, see cards.toml
        return ins.work * self.lanes / rate / share

    # Each returns a dict of cycles by pipe. `lines`: what a memory instruction asks of its pipe (clock.py).

    def _nvidia(self, ins, lines):
        kind, out = ins.kind, {"issue": 1}
        wide = self.target in ("sm_86", "sm_89", "sm_90")  # 32 lanes of f32 a scheduler, else 16
        if kind == "fma":
            out["fma"] = 1 if wide else 2
        elif kind == "half":
            out["fma"] = 2 if self.target == "sm_89" else 1
        elif kind in ("mad", "dot"):
            out["mad"] = 2
        elif kind in ("int", "pack"):
            out["alu"] = 2
        elif kind in ("convert", "special"):
            out["slow unit"] = 8
        elif kind == "read":
            out["slow unit"] = 2
        elif kind == "uniform":
            out["uniform"] = 2
        elif kind == "matrix":
            out["matrix"] = self.matrix_cycles(ins)
        elif kind == "double":
            out["double"] = 64 if self.target == "sm_89" else 2
        elif kind == "shuffle":
            out["local"] = 1
        elif kind in ("local_load", "local_store"):
            out["local"] = lines
        elif kind in ("load", "store", "spill"):
            out["cache"] = lines
        return out

    def _amd_wave32(self, ins, lines):
        kind = ins.kind
        if kind in ("fma", "half", "dot", "int", "pack", "convert", "mad"):
            out = {"vector": 2 if ins.width == 64 else 1}
        elif kind == "special":
            out = {"vector": 1, "slow unit": 4}
        elif kind == "multiply":
            out = {"vector": 4}
        elif kind == "double":
            out = {"vector": 32}
        elif kind == "matrix":
            out = {"vector": self.matrix_cycles(ins)}
        elif kind in ("scalar", "constant", "control"):
            out = {"scalar": 1}
        elif kind in ("local_load", "local_store", "shuffle"):
            out = {"local": max(lines * 0.5, 0.5)}  # two compute units of a workgroup processor
        elif kind in ("load", "store", "spill"):
            out = {"cache": max(lines * 0.5, 0.5), "memory issue": 1}
        else:
            out = {}
        return out

    def _amd_wave64(self, ins, lines):
        kind = ins.kind
        if kind in ("fma", "half", "dot", "int", "pack", "convert", "mad"):
            out = {"vector": 8 if ins.width == 64 and self.target == "gfx906" else 4}
        elif kind in ("special", "multiply"):
            out = {"vector": 16}
        elif kind == "double":
            out = {"vector": 8}
        elif kind == "matrix":
            out = {"matrix": self.matrix_cycles(ins)}
        elif kind in ("scalar", "constant", "control"):
            out = {"scalar": 4}
        elif kind in ("local_load", "local_store", "shuffle"):
            out = {"local": lines}
        elif kind in ("load", "store", "spill"):
            out = {"cache": lines, "memory issue": 4}
        else:
            out = {}
        return out

    def _intel(self, ins, lines):
        kind, out = ins.kind, {"issue": 1}
        width = max(1.0, ins.width / 8.0)
        if kind in ("fma", "half", "convert", "pack"):
            out["fma"] = width
        elif kind in ("int", "mad", "dot"):
            out["int" if self.target == "dg2" else "fma"] = width
        elif kind == "multiply":
            out["int" if self.target == "dg2" else "fma"] = 2 * width
        elif kind == "special":
            out["slow unit"] = 4 * width
        elif kind == "matrix":
            out["matrix"] = self.matrix_cycles(ins) if self.matrix else 16
        elif kind in ("local_load", "local_store"):
            out["local"] = lines
        elif kind in ("load", "store", "spill"):
            out["cache"] = 2 * lines
        return out
