"""Graphs: building them, looking at them, running them."""
from __future__ import annotations

import html
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from ._native import call, ffi, lib, text_of, utf8
from .device import Device

_dtypes = {"float32": "CLEF_F32", "float16": "CLEF_F16", "int32": "CLEF_I32", "int8": "CLEF_I8"}
_numpy_types = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "i8": np.int8}


@dataclass(frozen=True)
class Symbol:
    """A length that is known only when a graph runs: 1 to `bound`, for which memory is planned."""

    name: str
    bound: int
    times: int = 1

    def __mul__(self, n: int) -> Symbol:
        return Symbol(self.name, self.bound, self.times * n)

    __rmul__ = __mul__


def sym(name: str, bound: int = 512) -> Symbol:
    """A symbol for a shape: `clef.sym("T", 128)`; `2 * clef.sym("T")` is twice its value."""
    return Symbol(name, bound)


Dim = Union[int, Symbol]


class Value:
    """A value of a graph: an input, a weight, a constant, or what an op gives. `a @ b`, `a + b`, `-a` .. add ops."""

    def __init__(self, graph: Graph, pointer: Any) -> None:
        self.graph, self._value = graph, pointer

    @property
    def name(self) -> str:
        return text_of(lib.clef_value_describe(self._value).name)

    @property
    def op(self) -> str | None:
        """The op's name; None of a leaf."""
        return text_of(lib.clef_value_describe(self._value).op) or None

    @property
    def dtype(self) -> str:
        return text_of(lib.clef_dtype_name(lib.clef_value_describe(self._value).dtype))

    @property
    def shape(self) -> tuple[int | str, ...]:
        """Numbers, and symbols by name ("T", "2 T")."""
        shape = lib.clef_value_describe(self._value).shape
        return tuple(self.graph._dim_text(shape.dim[i]) for i in range(shape.rank))

    def __repr__(self) -> str:
        return f"<clef.Value {self.name}: {self.dtype} [{', '.join(map(str, self.shape))}]>"

    def __matmul__(self, other: Operand) -> Value:
        return self.graph.matmul(self, other)

    def __add__(self, other: Operand) -> Value:
        return self.graph.add(self, other)

    def __radd__(self, other: Operand) -> Value:
        return self.graph.add(other, self)

    def __sub__(self, other: Operand) -> Value:
        return self.graph.sub(self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self.graph.sub(other, self)

    def __mul__(self, other: Operand) -> Value:
        return self.graph.mul(self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self.graph.mul(other, self)

    def __truediv__(self, other: Operand) -> Value:
        return self.graph.div(self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self.graph.div(other, self)

    def __neg__(self) -> Value:
        return self.graph.neg(self)


Operand = Union[Value, float, npt.NDArray[Any]]


class Graph:
    """A computation graph, built on the host without a device.

        g = clef.Graph()
        x = g.input("x", (clef.sym("T"), 64))
        y = g.softmax(x @ g.weight("w", w))     # w: a NumPy array [64, 10]
        g.output("y", y)
        result = g.run("auto", x=array)          # {"y": array [T, 10]}

    Where an op takes a value it also takes a number or an array, which becomes a constant. An array's memory is
    borrowed: a weight's must not change while the graph is used.
    """

    def __init__(self) -> None:
        self._adopt(lib.clef_graph_create(), None)

    def _adopt(self, pointer: Any, owner: Any) -> None:
        if pointer == ffi.NULL:
            raise MemoryError("no memory for a graph")
        self._graph = pointer
        self._owner = owner  # the model whose weights it names
        self._weights: dict[str, npt.NDArray[Any]] = {}
        self._constants = 0
        self._plans: dict[int, Plan] = {}
        self._finalizer = weakref.finalize(self, lib.clef_graph_destroy, pointer)

    @classmethod
    def _of(cls, pointer: Any, owner: Any) -> Graph:
        graph = cls.__new__(cls)
        graph._adopt(pointer, owner)
        return graph

    @classmethod
    def parse(cls, text: str, name: str = "graph") -> Graph:
        """The graph of a text, as str(graph) gives it."""
        data = utf8(text)
        out = ffi.new("clef_graph **")
        call(lib.clef_graph_parse, data, len(data), utf8(name), out)
        return cls._of(out[0], None)

    # ---- leaves --------------------------------------------------------------------------------------------

    def _dim(self, dim: Dim) -> Any:
        if isinstance(dim, Symbol):
            found = lib.clef_symbol(self._graph, utf8(dim.name), dim.bound)
            self._check()
            found.n *= dim.times
            return found
        return ffi.new("clef_dim *", {"n": dim, "symbol": 0})[0]

    def _dim_text(self, dim: Any) -> int | str:
        if not dim.symbol:
            return int(dim.n)
        name = text_of(lib.clef_graph_symbol(self._graph, dim.symbol, ffi.NULL))
        return name if dim.n == 1 else f"{dim.n} {name}"

    def _shape(self, shape: Sequence[Dim]) -> Any:
        if len(shape) > lib.CLEF_MAX_DIMS:
            raise ValueError(f"shape: expected at most {lib.CLEF_MAX_DIMS} dims, got {len(shape)}")
        out = ffi.new("clef_shape *", {"rank": len(shape)})
        for i, dim in enumerate(shape):
            out.dim[i] = self._dim(dim)
        return out[0]

    def _check(self) -> None:
        call(lib.clef_graph_error, self._graph)

    def _new(self, pointer: Any) -> Value:
        self._check()
        return Value(self, pointer)

    def input(self, name: str, shape: Sequence[Dim], dtype: str = "float32") -> Value:
        """A value that each run is given."""
        return self._new(lib.clef_input(self._graph, utf8(name), _dtype(dtype), self._shape(shape)))

    def weight(self, name: str, array: npt.NDArray[Any]) -> Value:
        """A value that every run reads: float32, float16, int32 or int8."""
        array = np.ascontiguousarray(array)
        value = self._new(lib.clef_weight(self._graph, utf8(name), _dtype(str(array.dtype)),
                                          self._shape(array.shape)))
        self._weights[name] = array
        return value

    def constant(self, data: Any, name: str | None = None) -> Value:
        """A copy of numbers: integers as int32, others as float32."""
        array = np.asarray(data)
        array = np.ascontiguousarray(array, np.int32 if array.dtype.kind in "iu" else np.float32)
        self._constants += name is None
        return self._new(lib.clef_constant(self._graph, utf8(name or f"constant{self._constants}"),
                                           _dtype(str(array.dtype)), self._shape(array.shape),
                                           ffi.from_buffer(array)))

    def output(self, name: str, value: Value) -> Value:
        """Marks a value as a result."""
        lib.clef_output(self._graph, utf8(name), value._value)
        self._check()
        return value

    def _as_value(self, x: Operand) -> Any:
        if isinstance(x, Value):
            return x._value
        if isinstance(x, (int, float)):
            x = np.float32(x)  # type: ignore[assignment]
        return self.constant(x)._value

    # ---- ops: their formulas stand in clef/graph.h -----------------------------------------------------------

    def _op(self, function: Callable[..., Any], inputs: Sequence[Operand | None], struct: str = "",
            **options: Any) -> Value:
        pointers = [ffi.NULL if x is None else self._as_value(x) for x in inputs]
        if struct:
            pointers.append(ffi.new(f"{struct} *", options))
        return self._new(function(self._graph, *pointers))

    def matmul(self, a: Operand, b: Operand, bias: Operand | None = None, *, transpose_a: bool = False,
               transpose_b: bool = False, alpha: float = 1.0) -> Value:
        """alpha a b (+ bias); leading dims broadcast. transpose_b: b is [N, K], as torch.nn.Linear stores it."""
        return self._op(lib.clef_matmul, (a, b, bias), "clef_matmul_opts", transpose_b=int(transpose_b), alpha=alpha,
                        transpose_a=int(transpose_a))

    def softmax(self, x: Operand, mask: Operand | None = None, *, scale: float = 1.0, softcap: float = 0.0,
                causal: bool = False, window: int = 0, log: bool = False) -> Value:
        """exp(z - max z) / sum exp(z - max z) over the last dim, with z = scale x + mask."""
        return self._op(lib.clef_softmax, (x, mask, None), "clef_softmax_opts", scale=scale, softcap=softcap,
                        causal=int(causal), window=window, log=int(log))

    def attention(self, q: Operand, k: Operand, v: Operand, mask: Operand | None = None, *, scale: float = 1.0,
                  causal: bool = False, window: int = 0, softcap: float = 0.0) -> Value:
        """softmax(scale q k^T + mask) v of each head: q [B, H, T, D], k [B, Hk, S, D], v [B, Hk, S, E]; the result is
        [B, T, H, E]."""
        return self._op(lib.clef_attention, (q, k, v, mask, None), "clef_attention_opts", scale=scale,
                        softcap=softcap, causal=int(causal), window=window)

    def layer_norm(self, x: Operand, weight: Operand | None = None, bias: Operand | None = None, *,
                   eps: float = 1e-5) -> Value:
        """(x - mean) / sqrt(var + eps) weight + bias over the last dim."""
        return self._op(lib.clef_layer_norm, (x, weight, bias), "clef_norm_opts", eps=eps)

    def rms_norm(self, x: Operand, weight: Operand | None = None, *, eps: float = 1e-6) -> Value:
        """x / sqrt(mean(x^2) + eps) weight over the last dim."""
        return self._op(lib.clef_rms_norm, (x, weight), "clef_norm_opts", eps=eps)

    def gather(self, table: Operand, ids: Operand, *, axis: int = 0) -> Value:
        """Rows of a table along an axis, by ids; an embedding lookup has axis 0."""
        return self._op(lib.clef_gather, (table, ids), "clef_gather_opts", axis=axis)

    def reshape(self, x: Value, shape: Sequence[Dim]) -> Value:
        """The same elements in another shape."""
        return self._new(lib.clef_reshape(self._graph, x._value, self._shape(shape)))

    def permute(self, x: Value, axes: Sequence[int]) -> Value:
        """Dim i of the result is dim axes[i] of x."""
        return self._op(lib.clef_permute, (x,), "clef_permute_opts", axes=list(axes))

    def slice(self, x: Value, axis: int, start: int, size: Dim) -> Value:
        """`size` elements of an axis from `start`; a negative start counts from its end."""
        return self._op(lib.clef_slice, (x,), "clef_slice_opts", axis=axis, start=start, size=self._dim(size))

    def sum(self, x: Operand) -> Value:
        """The sum over the last dim, which becomes 1."""
        return self._op(lib.clef_reduce, (x,), "clef_reduce_opts", kind=lib.CLEF_REDUCE_SUM)

    def mean(self, x: Operand) -> Value:
        """The mean over the last dim, which becomes 1."""
        return self._op(lib.clef_reduce, (x,), "clef_reduce_opts", kind=lib.CLEF_REDUCE_MEAN)

    def max(self, x: Operand) -> Value:
        """The maximum over the last dim, which becomes 1."""
        return self._op(lib.clef_reduce, (x,), "clef_reduce_opts", kind=lib.CLEF_REDUCE_MAX)

    def argmax(self, x: Operand) -> Value:
        """The index of the maximum in the last dim, int32; among equals the lowest."""
        return self._op(lib.clef_argmax, (x,))

    def topk(self, x: Operand, k: int) -> Value:
        """The indices of the k largest in the last dim, int32; k is at most 64."""
        return self._op(lib.clef_topk, (x,), "clef_topk_opts", k=k)

    def add(self, a: Operand, b: Operand) -> Value:
        """a + b; dims align from the right, and 1 stretches."""
        return self._op(lib.clef_add, (a, b))

    def sub(self, a: Operand, b: Operand) -> Value:
        """a - b; dims as in add()."""
        return self._op(lib.clef_sub, (a, b))

    def mul(self, a: Operand, b: Operand) -> Value:
        """a b of each pair of elements; dims as in add()."""
        return self._op(lib.clef_mul, (a, b))

    def div(self, a: Operand, b: Operand) -> Value:
        """a / b; dims as in add()."""
        return self._op(lib.clef_div, (a, b))

    def gelu(self, x: Operand) -> Value:
        """x Phi(x), by erf."""
        return self._op(lib.clef_gelu, (x,))

    def gelu_tanh(self, x: Operand) -> Value:
        """GELU in its tanh form (arXiv:1606.08415)."""
        return self._op(lib.clef_gelu_tanh, (x,))

    def silu(self, x: Operand) -> Value:
        """x sigmoid(x)."""
        return self._op(lib.clef_silu, (x,))

    def relu(self, x: Operand) -> Value:
        """max(x, 0)."""
        return self._op(lib.clef_relu, (x,))

    def sigmoid(self, x: Operand) -> Value:
        """1 / (1 + exp(-x))."""
        return self._op(lib.clef_sigmoid, (x,))

    def tanh(self, x: Operand) -> Value:
        """The hyperbolic tangent."""
        return self._op(lib.clef_tanh, (x,))

    def exp(self, x: Operand) -> Value:
        """e to the power of x."""
        return self._op(lib.clef_exp, (x,))

    def log(self, x: Operand) -> Value:
        """The natural logarithm."""
        return self._op(lib.clef_log, (x,))

    def neg(self, x: Operand) -> Value:
        """-x."""
        return self._op(lib.clef_neg, (x,))

    def sqrt(self, x: Operand) -> Value:
        """The square root."""
        return self._op(lib.clef_sqrt, (x,))

    def rsqrt(self, x: Operand) -> Value:
        """1 / sqrt(x)."""
        return self._op(lib.clef_rsqrt, (x,))

    def square(self, x: Operand) -> Value:
        """x x."""
        return self._op(lib.clef_square, (x,))

    # ---- looking -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Value]:
        """The values in the order in which they are computed."""
        return (Value(self, lib.clef_graph_value(self._graph, i)) for i in range(len(self)))

    def __len__(self) -> int:
        return lib.clef_graph_n_values(self._graph)

    def __getitem__(self, name: str) -> Value:
        found = lib.clef_graph_find(self._graph, utf8(name))
        if found == ffi.NULL:
            raise KeyError(name)
        return Value(self, found)

    @property
    def outputs(self) -> dict[str, Value]:
        found, name = {}, ffi.new("const char **")
        for i in range(lib.clef_graph_n_outputs(self._graph)):
            value = lib.clef_graph_output(self._graph, i, name)
            found[text_of(name[0])] = Value(self, value)
        return found

    def optimize(self, last: str | None = None) -> Graph:
        """Runs the passes in their order, up to `last` (None: all). Values that are removed must not be used."""
        call(lib.clef_graph_optimize, self._graph, utf8(last) if last else ffi.NULL)
        return self

    def _written(self, function: Callable[..., int], *arguments: Any) -> str:
        with tempfile.TemporaryFile("w+b", buffering=0) as file:
            call(function, self._graph, *(file if x is ... else x for x in (arguments or (...,))))
            file.seek(0)
            return file.read().decode("utf-8")

    def __str__(self) -> str:
        return self._written(lib.clef_graph_write_text)

    def __repr__(self) -> str:
        return f"<clef.Graph of {len(self)} values>"

    def to_json(self) -> str:
        """The graph as JSON: {"format": "clef-graph", ..}."""
        return self._written(lib.clef_graph_write_json)

    def to_dot(self, *, fold: bool = False) -> str:
        """The graph for Graphviz. fold: each layer is one node."""
        if fold:
            return self._written(lib.clef_graph_write_folded_dot, ffi.NULL, 0, ...)
        return self._written(lib.clef_graph_write_dot)

    def to_onnx(self, path: str) -> None:
        """Writes the graph with its weights as an ONNX model of opset 18."""
        keep = _WeightSource(self)
        options = ffi.new("clef_onnx_opts *", {"weights": keep.function, "weights_user": keep.user})
        with open(path, "wb", buffering=0) as file:
            call(lib.clef_graph_write_onnx, self._graph, file, options)

    def _repr_svg_(self) -> str | None:
        """For notebooks, where Graphviz's `dot` is installed."""
        dot = shutil.which("dot")
        if not dot or len(self) > 400:
            return None
        result = subprocess.run([dot, "-Tsvg"], input=self.to_dot().encode(), capture_output=True, check=False)
        return result.stdout.decode() if result.returncode == 0 else None

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    # ---- running -------------------------------------------------------------------------------------------

    def plan(self, device: str | Device = "auto", *, exact: bool = False) -> Plan:
        """The graph, compiled for a device."""
        return Plan(self, Device(device) if isinstance(device, str) else device, exact)

    def run(self, device: str | Device = "auto", **inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Runs the graph once. inputs: an array for each input, by name; their shapes bind the symbols. The plan is
        kept for the next run on the same Device."""
        if isinstance(device, str):
            return self.plan(device).run(**inputs)
        key = id(device)
        if key not in self._plans:
            self._plans[key] = self.plan(device)
        return self._plans[key].run(**inputs)


def _dtype(name: str) -> int:
    if name not in _dtypes:
        raise ValueError(f"dtype: expected one of {', '.join(_dtypes)}, got {name}")
    return getattr(lib, _dtypes[name])


class _WeightSource:
    """Where a plan finds the weights of a graph: the arrays of weight(), else the model's files."""

    def __init__(self, graph: Graph) -> None:
        self.owner = graph._owner
        self.arrays = dict(graph._weights)
        if self.owner is not None:
            self.function, self.user = lib.clef_model_weight, ffi.cast("void *", self.owner._model)
        else:
            self.function, self.user = lib.clef_py_weight, ffi.new_handle(self)

    def find(self, name: str, n_bytes: int) -> Any:
        array = self.arrays.get(name)
        return ffi.from_buffer(array) if array is not None and array.nbytes == n_bytes else ffi.NULL


class Plan:
    """A graph that was compiled for a device. It can run again and again; nothing is allocated then."""

    def __init__(self, graph: Graph, device: Device, exact: bool = False) -> None:
        self.device = device
        self._source = _WeightSource(graph)
        copy = lib.clef_graph_clone(graph._graph)
        if copy == ffi.NULL:
            raise MemoryError("no memory for a graph")
        try:
            call(lib.clef_graph_optimize, copy, ffi.NULL)
            options = ffi.new("clef_plan_opts *", {"weights": self._source.function,
                                                   "weights_user": self._source.user})
            options.compile.exact = int(exact)
            out = ffi.new("clef_plan **")
            with device._lock:
                call(lib.clef_plan_create, device._pointer, copy, options, out)
        finally:
            lib.clef_graph_destroy(copy)
        self._plan = out[0]
        self._inputs = _leaves(graph)
        self._outputs = {name: value.dtype for name, value in graph.outputs.items()}
        # The device is closed after its plans.
        self._finalizer = weakref.finalize(self, _destroy, self._plan, device)
        device._register(self._finalizer)

    def run(self, **inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """The outputs for these inputs, by name."""
        wrong = inputs.keys() ^ self._inputs.keys()
        if wrong:
            raise ValueError(f"run: expected the inputs {', '.join(self._inputs) or 'none'}; "
                             f"{'missing' if wrong - inputs.keys() else 'unknown'}: {', '.join(sorted(wrong))}")
        arrays = {name: np.ascontiguousarray(array, _numpy_types[self._inputs[name][0]])
                  for name, array in inputs.items()}
        lengths = self._lengths(arrays)
        with self.device._lock:
            if not self._finalizer.alive:
                raise ValueError("the device of this plan was closed")
            return self._run(arrays, lengths)

    def _run(self, arrays: Mapping[str, npt.NDArray[Any]], lengths: Mapping[str, int]) -> dict[str, npt.NDArray[Any]]:
        for symbol, n in lengths.items():
            call(lib.clef_plan_bind, self._plan, lib.clef_plan_symbol(self._plan, utf8(symbol)), n)
        for name, array in arrays.items():
            call(lib.clef_plan_write, self._plan, lib.clef_plan_input(self._plan, utf8(name)),
                 ffi.from_buffer(array), array.nbytes)
        call(lib.clef_plan_run, self._plan)
        return {name: self._read(name, dtype) for name, dtype in self._outputs.items()}

    def _lengths(self, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, int]:
        """The values of symbols, by the arrays' shapes."""
        found: dict[str, int] = {}
        for name, array in arrays.items():
            dims = self._inputs[name][1]
            if array.ndim != len(dims):
                raise ValueError(f"{name}: expected {len(dims)} dims, got an array of shape {array.shape}")
            for n, (times, symbol) in zip(array.shape, dims):
                if symbol is None and n != times or symbol and (n % times or found.get(symbol, n // times) != n // times):
                    wanted = [str(t) if s is None else s if t == 1 else f"{t} {s}" for t, s in dims]
                    raise ValueError(f"{name}: expected the shape [{', '.join(wanted)}], got {list(array.shape)}")
                if symbol:
                    found[symbol] = n // times
        return found

    def _read(self, name: str, dtype: str) -> npt.NDArray[Any]:
        rank, dims = ffi.new("int32_t *"), ffi.new("int64_t[4]")
        number = lib.clef_plan_output(self._plan, utf8(name))
        n_bytes = lib.clef_plan_output_bytes(self._plan, number, rank, dims)
        out = np.empty([dims[i] for i in range(rank[0])], _numpy_types[dtype])
        call(lib.clef_plan_read, self._plan, number, ffi.from_buffer(out) if n_bytes else ffi.NULL, n_bytes)
        return out


def _leaves(graph: Graph) -> dict[str, tuple[str, list[tuple[int, str | None]]]]:
    """Of each input its dtype, and of each dim a number and a symbol."""
    found = {}
    for value in graph:
        info = lib.clef_value_describe(value._value)
        if info.kind != lib.CLEF_INPUT:
            continue
        dims = []
        for i in range(info.shape.rank):
            dim = info.shape.dim[i]
            symbol = text_of(lib.clef_graph_symbol(graph._graph, dim.symbol, ffi.NULL)) if dim.symbol else None
            dims.append((int(dim.n), symbol))
        found[text_of(info.name)] = (value.dtype, dims)
    return found


def _destroy(plan: Any, device: Device) -> None:
    lib.clef_plan_destroy(plan)
    del device
