"""Holds the way in which speed is predicted against clef's own kernels on this machine's processor, where PoCL runs them and their
time can be measured.

usage: processor.py CLEF FOLDER LLVM_MCA [LIBRARIES] [--document FILE] [--cpu NAME]
  CLEF       the command
  FOLDER     gets models, PoCL's code and profiles; what is there from an earlier run is used again
  LIBRARIES  the folder of the libraries that llvm-mca needs, if the system's are not they
  FILE       gets the tables between "<!-- processor -->" and "<!-- end of processor -->"
  NAME       the processor that llvm-mca is to assume, as LLVM calls it [this machine's]

It is a report: busy machines give other figures, and no figure makes it fail."""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys

import asm_processor
import bounds
import correlation
import document

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN, END = "<!-- processor -->", "<!-- end of processor -->"
FORMATS = ("f32", "f16", "q8_0", "q4_k", "q4_0")
PROMPT = 48  # tokens: whole token blocks, and so few that some launches fall between two turns of other programs
DEPTH = 960  # tokens before the decode
RUNS = 3  # after the one that compiles
LEAST_US = 20  # of a launch: in shorter ones the cost of starting them counts, which is not predicted


def run(command, **more):
    out = subprocess.run(command, capture_output=True, text=True, **more)
    if out.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} ..: exit code {out.returncode}: {out.stderr.strip()[-300:]}")
    return out.stdout


class Measured:
    """A kernel of one node of a step: seconds, multiply-adds and bytes of its launches together."""

    def __init__(self):
        self.seconds, self.products, self.bytes = 0.0, 0.0, 0.0


def launches_of(path):
    """{(step, role of the node, kernel): [Measured, one for each layer]} of a file that clef bench --trace wrote."""
    with open(path) as file:
        events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
    steps = [(e["ts"], e["name"]) for e in events if e["pid"] == 1 and e["tid"] == 1]
    found = {}
    for e in events:
        if e["pid"] != 2 or "kernel" not in e["args"]:
            continue
        step = max((s for s in steps if s[0] <= e["ts"]), default=None)
        if step is None:
            continue
        node, kernel = e["args"]["node"], e["args"]["kernel"]
        m = found.setdefault((step[1], node, kernel), Measured())
        m.seconds += e["dur"] * 1e-6
        m.products += e["args"]["Gop/s"] * e["dur"] * 1e3 / 2
        m.bytes += e["args"]["GB/s"] * e["dur"] * 1e3
    out = {}
    for (step, node, kernel), m in found.items():
        role = node.partition(".")[2] if node.startswith("layer") else node
        out.setdefault((step, role, kernel), []).append(m)
    return out


class Machine:
    """The clock in GHz, what all threads read of memory in GB a second, the number of threads, the device's name."""

    def __init__(self, clef, folder):
        program = os.path.join(folder, "clock_rate")
        run(["cc", "-O1", "-o", program, os.path.join(HERE, "clock_rate.c")])
        self.program, self.clef = program, clef
        self.clocks, self.rates = [], []
        self.look()

    def look(self):
        """Once more. Others may use the machine, so the fastest counts, as it does for launches."""
        self.clocks.append(float(run([self.program])))
        rows = [json.loads(line) for line in run([self.clef, "bench", "--device", "--json"]).splitlines()]
        read = next(r for r in rows if r["what"] == "read")
        self.rates.append(read["value"])
        self.threads, self.device = read["threads"], read["device"]

    @property
    def ghz(self):
        return max(self.clocks)

    @property
    def read_gbs(self):
        return max(self.rates)


class Comparison:
    """seconds: the fastest that was measured, of all layers and runs. cycles: of a round of `loop`, as llvm-mca has it."""

    def __init__(self, form, key, measurements, loop, cycles):
        self.form, (self.step, self.role, self.kernel) = form, key
        best = min(measurements, key=lambda m: m.seconds)
        self.seconds, self.products, self.bytes = best.seconds, best.products, best.bytes
        self.loop, self.cycles = loop, cycles

    @property
    def kind(self):
        """What its line of the second table is: a prompt's logits are a product of one row, too."""
        return "attention" if self.kernel.startswith("attention") else "decode" if "gemv" in self.kernel else self.step

    def predict(self, machine):
        """Seconds, and the bound that rules."""
        cores = self.products / self.loop.products * self.cycles / (machine.ghz * 1e9 * machine.threads)
        memory = self.bytes / (machine.read_gbs * 1e9)
        return bounds.meet(cores, memory), "memory" if memory > cores else "cores"


def compare_format(form, clef, folder, machine, mca):
    """[Comparison] of one number format. Its code goes to a cache of its own: which programs belong to it is not written there."""
    cache = os.path.join(folder, f"pocl-{form}")
    os.makedirs(cache, exist_ok=True)
    model = os.path.join(folder, f"{form}.gguf")
    if not os.path.exists(model):
        run([clef, "quantize", os.path.join(folder, "model"), model, form, "--no-tokenizer", "-q"])
    environment = {
        **os.environ,
        "POCL_CACHE_DIR": cache,
        "POCL_KERNEL_CACHE": "1",
        "POCL_LEAVE_KERNEL_COMPILER_TEMP_FILES": "1",
        "CLEF_CACHE_DIR": os.path.join(folder, f"clef-{form}"),
    }
    found = {}
    for i in range(RUNS + 1):
        trace = os.path.join(folder, "trace.json")
        command = [clef, "bench", model, "-p", str(PROMPT), "-n", "2", "--depth", str(DEPTH), "-r", "1", "--profile", "--trace", trace]
        run([*command, "--no-tune", "--no-proof", "-q"], env=environment)
        if i == 0:
            continue
        for key, values in launches_of(trace).items():
            found.setdefault(key, []).extend(values)
        machine.look()
    out = []
    for key, values in found.items():
        values = [m for m in values if m.products]
        if not values or not key[2].startswith(("panel_", "gemv", "gemm", "attention")):
            continue
        loop = asm_processor.main_loop(cache, key[2])
        if loop is None:
            print(f"processor: {form}: {key[2]}: found no loop with products in PoCL's code", file=sys.stderr)
            continue
        out.append(Comparison(form, key, values, loop, mca.cycles(loop)))
    return [c for c in out if c.seconds * 1e6 >= LEAST_US]


def rate(products, seconds):
    """Thousand million multiply-adds a second."""
    return products / seconds / 1e9


def cell(rows, machine):
    """Measured / predicted rates of several launches together, and what rules most of their time."""
    if not rows:
        return ""
    products, seconds = sum(r.products for r in rows), sum(r.seconds for r in rows)
    predicted = [r.predict(machine) for r in rows]
    rules = {}
    for s, rule in predicted:
        rules[rule] = rules.get(rule, 0.0) + s
    return f"{rate(products, seconds):,.0f} / {rate(products, sum(s for s, _ in predicted)):,.0f} {max(rules, key=rules.get)}"


def tables(rows, machine, cpu):
    out = [
        f"Processor: {cpu} as LLVM calls it, {machine.threads} threads at {machine.ghz:.2f} GHz, which read {machine.read_gbs:.0f} GB/s "
        f"from memory. Rates are in thousand millions of multiply-adds a second, measured / predicted.",
        "",
        "| number format | decode | prefill | cycles of a round, prefill | median error |",
        "|---|---|---|---|---|",
    ]
    for form in FORMATS:
        own = [r for r in rows if r.form == form and r.kind != "attention"]
        if not own:
            continue
        cells = [cell([r for r in own if r.kind == kind], machine) for kind in ("decode", "prefill")]
        prefill = max((r for r in own if r.kind == "prefill"), key=lambda r: r.loop.products, default=None)
        round_ = f"{prefill.cycles:.0f} for {prefill.loop.products}" if prefill else ""
        off = statistics.median(abs(r.predict(machine)[0] / r.seconds - 1) for r in own)
        out.append(f"| {form} | {' | '.join(cells)} | {round_} | {100 * off:.0f} % |")
    out += ["", "| launches | number | rank correlation | median error | largest error |", "|---|---|---|---|---|"]
    kinds = {
        "products of one row": [r for r in rows if r.kind == "decode"],
        f"products of {PROMPT} rows": [r for r in rows if r.kind == "prefill"],
        "attention": [r for r in rows if r.kind == "attention"],
        "all": rows,
    }
    for name, own in kinds.items():
        if len(own) < 2:
            continue
        measured = [rate(r.products, r.seconds) for r in own]
        predicted = [rate(r.products, r.predict(machine)[0]) for r in own]
        errors = correlation.errors(measured, predicted)
        i = errors.index(max(errors))
        out.append(
            f"| {name} | {len(own)} | {correlation.spearman(measured, predicted):.2f} | {100 * statistics.median(errors):.0f} % | "
            f"{100 * errors[i]:.0f} % ({own[i].form}, {own[i].kernel} {own[i].role}: "
            f"{measured[i]:,.0f} measured, {predicted[i]:,.0f} predicted) |"
        )
    return out


def missing(arguments):
    """Why nothing can be compared here; None: it can."""
    if platform.machine() != "x86_64":
        return f"expected an x86-64 processor, whose code asm_processor.py reads, got {platform.machine()}"
    for tool in ("objdump", "cc"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    if not shutil.which(arguments.llvm_mca):
        return "llvm-mca is not installed, and llvm-19 (Debian) cannot be had"
    try:
        first = json.loads(run([arguments.clef, "bench", "--device", "--json"]).splitlines()[0])
    except (RuntimeError, OSError, ValueError, IndexError) as why:
        return f"no OpenCL device: {why}"
    if not first["device"].startswith(("pthread", "cpu")):
        return f"expected PoCL's processor as the first device, got {first['device']}"
    return None


def main():
    parser = argparse.ArgumentParser(add_help=False, usage=__doc__)
    for name in ("clef", "folder", "llvm_mca"):
        parser.add_argument(name)
    parser.add_argument("libraries", nargs="?")
    parser.add_argument("--document")
    parser.add_argument("--cpu", default="native")
    arguments = parser.parse_args()
    why = missing(arguments)
    if why:
        print(f"offline: --validate-processor skipped: {why}")
        return
    folder = arguments.folder
    os.makedirs(folder, exist_ok=True)
    mca = asm_processor.Mca(arguments.llvm_mca, arguments.libraries, arguments.cpu)
    if not os.path.exists(os.path.join(folder, "model")):
        run([sys.executable, os.path.join(HERE, "random_model.py"), os.path.join(folder, "model")])
    machine = Machine(arguments.clef, folder)
    rows = []
    for form in FORMATS:
        print(f"processor: {form}", file=sys.stderr)
        try:
            rows += compare_format(form, arguments.clef, folder, machine, mca)
        except (RuntimeError, LookupError) as why:
            print(f"processor: {form}: {why}", file=sys.stderr)
    if not rows:
        sys.exit("processor: no kernel could be compared")
    lines = tables(rows, machine, mca.name())
    for r in rows:
        seconds, rule = r.predict(machine)
        print(
            f"{r.form} {r.step} {r.kernel} {r.role}: {r.seconds * 1e6:.0f} us measured, {seconds * 1e6:.0f} predicted ({rule}; "
            f"{r.cycles:.1f} cycles a round of {r.loop.products})"
        )
    print("\n".join(lines))
    if arguments.document:
        document.write_between(arguments.document, BEGIN, END, lines)


if __name__ == "__main__":
    main()
