"""What notebooks show: graphs, attention, profiles, training curves, as HTML and SVG without scripts."""
from __future__ import annotations

import html
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .graph import Graph

_MOST_DRAWN = 400  # values that Graphviz draws in a moment


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table; the cells are HTML."""
    top = "".join(f"<th style='text-align:left'>{name}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td style='text-align:left'>{cell}</td>" for cell in row) + "</tr>"
                   for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


# ---- graphs ------------------------------------------------------------------------------------------------


def graph_svg(graph: Graph) -> str | None:
    """The graph as Graphviz draws it; of a large one each layer is one node. None without `dot`."""
    dot = shutil.which("dot")
    if not dot:
        return None
    source = graph.to_dot(fold=len(graph) > _MOST_DRAWN)
    result = subprocess.run([dot, "-Tsvg"], input=source.encode(), capture_output=True, check=False)
    if result.returncode != 0:
        return None
    text = result.stdout.decode()
    return text[text.index("<svg"):]


def graph_html(graph: Graph) -> str:
    """The graph's values in a table that can be folded, below a picture of a small graph."""
    rows = []
    for value in graph:
        inputs = ", ".join("-" if x is None else x.name for x in value.inputs)
        shape = ", ".join(map(str, value.shape))
        rows.append([html.escape(value.name), html.escape(value.op or value.kind), f"{value.dtype} [{shape}]",
                     html.escape(inputs)])
    is_small = len(rows) <= 40
    picture = graph_svg(graph) if is_small else None
    is_open = " open" if is_small and not picture else ""
    return (f"{picture or ''}<details{is_open}><summary>graph of {len(rows)} values; outputs: "
            f"{html.escape(', '.join(graph.outputs) or 'none')}</summary>"
            f"{_table(['value', 'op', 'type', 'inputs'], rows)}</details>")


# ---- profiles ----------------------------------------------------------------------------------------------


class Profile(list[dict[str, Any]]):
    """The launches of a run, each with node, op, kernel, us (its time), flops, bytes, queued_us and start_us. A
    notebook shows them by op."""

    @property
    def total_us(self) -> float:
        """The time of all launches."""
        return float(sum(launch["us"] for launch in self))

    def by_op(self) -> dict[str, dict[str, float]]:
        """The sums for each op: us, launches, flops, bytes; the slowest first."""
        found: dict[str, dict[str, float]] = {}
        for launch in self:
            row = found.setdefault(launch["op"], {"us": 0.0, "launches": 0, "flops": 0.0, "bytes": 0.0})
            row["launches"] += 1
            for name in ("us", "flops", "bytes"):
                row[name] += launch[name]
        return dict(sorted(found.items(), key=lambda item: -item[1]["us"]))

    def _repr_html_(self) -> str:
        total = self.total_us or 1.0
        rows = []
        for op, row in self.by_op().items():
            width = 100 * row["us"] / total
            bar = f"<div style='background:#4878a8;height:0.8em;width:{width:.1f}%'></div>"
            seconds = row["us"] * 1e-6 or 1.0
            rows.append([html.escape(op), f"{row['launches']:.0f}", f"{row['us']:.1f}", f"{width:.1f} %",
                         f"<div style='width:12em'>{bar}</div>", f"{row['flops'] / seconds * 1e-9:.2f}",
                         f"{row['bytes'] / seconds * 1e-9:.2f}"])
        return (f"<p>{len(self)} launches, {self.total_us:.1f} µs</p>"
                + _table(["op", "launches", "µs", "share", "", "GFLOP/s", "GB/s"], rows))


# ---- attention ---------------------------------------------------------------------------------------------


class Attention:
    """The attention of a text. `weights` is float32 [layers, heads, T, S]: row t says where token t looks. `tokens` are
    the texts of the tokens. A notebook shows a map for each head."""

    def __init__(self, tokens: Sequence[str], weights: npt.NDArray[np.float32], source: Sequence[str] | None = None,
                 layers: Sequence[int] | None = None) -> None:
        self.tokens, self.weights, self.source = list(tokens), weights, list(source or tokens)
        self.layers = list(layers) if layers is not None else list(range(len(weights)))

    def __repr__(self) -> str:
        return f"<clef.Attention of {len(self.tokens)} tokens, {self.weights.shape[0]} layers>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.weights, dtype=dtype, copy=True) if copy else np.asarray(self.weights, dtype=dtype)

    def _head(self, layer: int, head: int, size: int) -> str:
        rows, columns = self.weights.shape[2:]
        cells = []
        for t in range(rows):
            for s in range(columns):
                weight = float(self.weights[layer, head, t, s])
                if weight < 0.004:
                    continue
                hint = html.escape(f"{self.tokens[t]!r} → {self.source[s]!r}: {weight:.3f}")
                cells.append(f"<rect x='{s * size}' y='{t * size}' width='{size}' height='{size}' fill='#1f4e79' "
                             f"fill-opacity='{weight:.3f}'><title>{hint}</title></rect>")
        return (f"<svg width='{columns * size + 2}' height='{rows * size + 2}' style='border:1px solid #bbb'>"
                f"{''.join(cells)}</svg><br>head {head}")

    def _repr_html_(self) -> str:
        n = max(self.weights.shape[2:])
        size = max(3, min(14, 160 // max(n, 1)))
        words = " ".join(f"<code>{html.escape(token)}</code>" for token in self.tokens)
        parts = [f"<p>{words}</p><p>Row: the token that looks. Column: the token that it looks at.</p>"]
        for i, layer in enumerate(self.layers):
            maps = "".join(f"<td style='text-align:center'>{self._head(i, head, size)}</td>"
                           for head in range(self.weights.shape[1]))
            is_open = " open" if i == 0 else ""
            parts.append(f"<details{is_open}><summary>layer {layer}</summary><table><tr>{maps}</tr></table></details>")
        return "".join(parts)


# ---- training ----------------------------------------------------------------------------------------------


class History(list[dict[str, Any]]):
    """The steps of a training, each with step, loss, grad_norm and rate; some with validation_loss. A notebook shows
    the losses as a curve."""

    def _series(self, name: str) -> list[tuple[float, float]]:
        found = [(float(row["step"]), float(row[name])) for row in self if row.get(name) is not None]
        return [(x, y) for x, y in found if np.isfinite(y)]

    @staticmethod
    def _line(points: Sequence[tuple[float, float]], box: tuple[float, float, float, float], colour: str) -> str:
        left, right, low, high = box
        scaled = " ".join(f"{50 + 520 * (x - left) / (right - left or 1):.1f},"
                          f"{20 + 200 * (high - y) / (high - low or 1):.1f}" for x, y in points)
        return f"<polyline points='{scaled}' fill='none' stroke='{colour}' stroke-width='1.5'/>"

    def _repr_svg_(self) -> str | None:
        loss, validation = self._series("loss"), self._series("validation_loss")
        both = loss + validation
        if not both:
            return None
        xs, ys = [x for x, _ in both], [y for _, y in both]
        box = (min(xs), max(xs), min(ys), max(ys))
        text = "font-family='sans-serif' font-size='11'"
        marks = [f"<text x='46' y='24' text-anchor='end' {text}>{box[3]:.3g}</text>",
                 f"<text x='46' y='222' text-anchor='end' {text}>{box[2]:.3g}</text>",
                 f"<text x='50' y='236' {text}>step {box[0]:.0f}</text>",
                 f"<text x='570' y='236' text-anchor='end' {text}>{box[1]:.0f}</text>",
                 f"<text x='560' y='16' text-anchor='end' fill='#1f4e79' {text}>loss</text>"]
        if validation:
            marks.append(f"<text x='525' y='16' text-anchor='end' fill='#b04a00' {text}>validation loss</text>")
        lines = self._line(loss, box, "#1f4e79") + (self._line(validation, box, "#b04a00") if validation else "")
        frame = "<rect x='50' y='20' width='520' height='200' fill='none' stroke='#bbb'/>"
        return (f"<svg xmlns='http://www.w3.org/2000/svg' width='600' height='245'>{frame}{lines}{''.join(marks)}"
                "</svg>")
