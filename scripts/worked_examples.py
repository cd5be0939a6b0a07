#!/usr/bin/env python3
"""Writes docs/worked-examples.md: attention worked by hand, computed by clef stage by stage.

usage: worked_examples.py CLEF EXAMPLES.json PAGE.md PICTURES
"""
import json, os, struct, subprocess, sys, tempfile

clef, examples, page, pictures = sys.argv[1:]
ex = json.load(open(examples))
tmp = tempfile.mkdtemp()


def flat(x):
    return [v for row in x for v in flat(row)] if isinstance(x, list) else [float(x)]


def dims(x):
    return [len(x)] + dims(x[0]) if isinstance(x, list) else []


def save(tensors, path):
    header, data = {}, b""
    for name, x in tensors.items():
        raw = struct.pack(f"<{len(flat(x))}f", *flat(x))
        header[name] = {"dtype": "F32", "shape": dims(x), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(head)) + head + data)


def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        v = list(struct.unpack(f"<{(end - begin) // 4}f", raw[8 + n + begin:8 + n + end]))
        width = t["shape"][-1]
        out[name] = [v[i:i + width] for i in range(0, len(v), width)]
    return out


def run(name, graph, inputs):
    paths = [os.path.join(tmp, name + s) for s in (".clef", ".in.safetensors", ".out.safetensors")]
    open(paths[0], "w").write(graph)
    save(inputs, paths[1])
    subprocess.run([clef, "eval", paths[0], "--in", paths[1], "--out", paths[2], "--after", "build", "-q"], check=True)
    svg = subprocess.run([clef, "graph", paths[0], "--after", "build", "--format", "svg"], check=True, capture_output=True).stdout
    open(os.path.join(pictures, name + ".svg"), "wb").write(svg)
    return load(paths[2])


def table(rows, names, columns=None, printed=None):
    width = max(map(len, rows))
    lines = ["| | " + " | ".join(columns or [""] * width) + " |", "|---" * (width + 1) + "|"]
    for i, r in enumerate(rows):
        cells = [f"{v:.3f}" + (f" ({printed[i][j]:g})" if printed else "") for j, v in enumerate(r)]
        lines.append(f"| {names[i]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def heat(path, weights, rows, columns):
    cell, left, top = 44, 80, 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + cell * len(columns) + 8}" height="{top + cell * len(rows) + 8}" '
           'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>']
    for j, c in enumerate(columns):
        out.append(f'<text x="{left + cell * (j + .5)}" y="{top - 8}" text-anchor="middle">{c}</text>')
    for i, r in enumerate(weights):
        out.append(f'<text x="{left - 6}" y="{top + cell * (i + .6)}" text-anchor="end">{rows[i]}</text>')
        for j, w in enumerate(r):
            t = w ** .5
            fill = "#dedede" if w == 0 else f"rgb({255 - 235 * t:.0f},{255 - 184 * t:.0f},{255 - 89 * t:.0f})"
            out.append(f'<rect x="{left + cell * j}" y="{top + cell * i}" width="{cell}" height="{cell}" fill="{fill}" stroke="#fff"/>'
                       f'<text x="{left + cell * (j + .5)}" y="{top + cell * (i + .6)}" text-anchor="middle" fill="{"#fff" if w > .5 else "#222"}">{w:.2f}</text>')
    open(path, "w").write("\n".join(out + ["</svg>\n"]))


a = ex["self_attention_4x4"]
words = a["text"].split()
graph_a = """clef-graph 1
input X f32 [4, 4]
input Wq f32 [4, 2]
input K f32 [4, 2]
input V f32 [4, 2]
Q = matmul(X, Wq)
scores = matmul(Q, K) transpose_b=1
weights = softmax(scores) scale=0.70710678
out = matmul(weights, V)
output Q
output scores
output weights
output out
"""
got = run("self-attention", graph_a, {k: a[k] for k in ("X", "Wq", "K", "V")})
# The page's two misprinted scores do not lead to its weights; each stage is held against the printed one before it.
again = run("self-attention-printed", graph_a.replace("scores = matmul(Q, K) transpose_b=1\n", "").replace(
    "input X f32 [4, 4]\ninput Wq f32 [4, 2]\ninput K f32 [4, 2]\n", "input scores f32 [4, 4]\n").replace("Q = matmul(X, Wq)\n", "").replace(
    "output Q\noutput scores\n", ""), {"scores": a["scores_printed"], "V": a["V"]})
os.remove(os.path.join(pictures, "self-attention-printed.svg"))
heat(os.path.join(pictures, "worked-weights.svg"), got["weights"], words, words)

r = ex["self_attention_row"]
row = run("attention-row", "clef-graph 1\ninput scores f32 [1, 3]\ninput V f32 [3, 2]\nscaled = affine(scores) scale=0.70710678\n"
          "weights = softmax(scaled)\nout = matmul(weights, V)\noutput scaled\noutput weights\noutput out\n",
          {"scores": [r["scores_printed"]], "V": r["V"]})

m = ex["causal_mask"]
mask = run("causal-mask", "clef-graph 1\ninput scores f32 [4, 4]\nweights = softmax(scores)\noutput weights\n",
           {"scores": [[float(v) for v in line] for line in m["scores"]]})
heat(os.path.join(pictures, "causal-weights.svg"), mask["weights"], ["1", "2", "3", "4"], ["1", "2", "3", "4"])

open(page, "w").write(f"""# Attention worked by hand, and by clef

Three printed examples of attention, computed again by clef. Each cell shows clef's number and, in brackets, the number
that the source document prints. `scripts/pictures` makes this page from `tests/fixtures/worked_examples.json`, and the
test `tests/graph/test_worked.c` checks the same numbers.

## "{a['text']}"

Each of the four words is a vector of {a['d_model']} numbers. The example has {a['heads']} heads and works out one of them, with keys of {a['d_k']}
numbers. This is its graph in the text form ([graph-format.md](graph-format.md)). `clef eval` runs it, and `clef graph
--format svg` draws it:

```
{graph_a.rstrip()}
```

![the graph](pictures/self-attention.svg)

**Q = X Wq**

{table(got['Q'], words, printed=a['Q'])}

**Scores Q Kᵀ.** The printed scores of (love, phones) and (phones, phones) are misprints: they do not follow from the
printed Q and K.

{table(got['scores'], words, words, a['scores_printed'])}

**Weights softmax(scores / √{a['d_k']}).** They are computed from the printed scores, as the printed weights are:

{table(again['weights'], words, words, a['weights_printed'])}

The heat map shows the weights of the scores that do follow from Q and K. Each row sums to 1:

![the weights](pictures/worked-weights.svg)

**Output: weights V**, again from the printed scores:

{table(again['out'], words, printed=a['output_printed'])}

## "{r['text']}": one row

The scores {', '.join(f'{v:g}' for v in r['scores_printed'])} are divided by √{r['d_k']}; their softmax is multiplied by V:

{table([row['scaled'][0], row['weights'][0]], ['scaled', 'weights'], r['text'].split(), [r['scaled_printed'], r['weights_printed']])}

The output is {', '.join(f'{v:.3f} ({p:g})' for v, p in zip(row['out'][0], r['output_printed']))}.

## The causal mask

A query never attends to a later key. A row whose scores are all -inf gives zeros, never NaN. The scores of this example
are -inf above the diagonal, and in the whole first row:

{table(mask['weights'], ['1', '2', '3', '4'], ['1', '2', '3', '4'])}

![the weights](pictures/causal-weights.svg)

To see a model's own weights: `clef attention MODEL -p "{ex['causal_rows_printed']['text']}" --layer 0 --head 0`.
""")
print(page)
