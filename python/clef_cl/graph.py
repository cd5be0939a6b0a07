"""Graphs: building them, looking at them, running them."""
from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Union, cast

import numpy as np
import numpy.typing as npt

from ._arrays import as_array, as_c_array, whole
from ._native import ClosedError, c_text, call, ffi, fields_of, lib, new_struct, text_of, utf8
from ._ops import Operand, Ops
from ._pages import Profile, graph_html, graph_svg
from .device import Device, Progress

_dtypes = {"float32": "CLEF_F32", "float16": "CLEF_F16", "bfloat16": "CLEF_BF16", "int32": "CLEF_I32",
           "int8": "CLEF_I8"}
_numpy_types = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "i8": np.int8}


def _dtype(name: Any) -> int:
    """A dtype's number, by NumPy's name of it or clef's."""
    text = name if isinstance(name, str) else np.dtype(name).name
    if text in _dtypes:
        return int(getattr(lib, _dtypes[text]))
    for i in range(lib.CLEF_N_DTYPES):
        if text_of(lib.clef_dtype_name(i)) == text:
            return i
    known = [text_of(lib.clef_dtype_name(i)) for i in range(lib.CLEF_N_DTYPES)]
    raise ValueError(f"dtype: expected one of {', '.join([*_dtypes, *known])}, got {text}")


def encode(array: Any, dtype: str) -> npt.NDArray[np.uint8]:
    """Numbers in a dtype's own bytes: encode(w, "q8_0"). The elements are whole blocks of it."""
    kind, data = _dtype(dtype), as_c_array(array, np.float32).ravel()
    elems, n_bytes = lib.clef_dtype_block_elems(kind), lib.clef_dtype_block_bytes(kind)
    if not lib.clef_dtype_encodes(kind):
        raise ValueError(f"encode: clef does not write {dtype}")
    if data.size % elems:
        raise ValueError(f"encode: expected a multiple of {elems} elements for {dtype}, got {data.size}")
    out = np.empty(data.size // elems * n_bytes, np.uint8)
    lib.clef_dtype_encode(kind, ffi.cast("const float *", ffi.from_buffer(data)), data.size, ffi.from_buffer(out))
    return out


def decode(data: Any, dtype: str) -> npt.NDArray[np.float32]:
    """The numbers in bytes of a dtype, float32: the inverse of encode()."""
    kind, raw = _dtype(dtype), np.frombuffer(np.ascontiguousarray(as_array(data)), np.uint8)
    elems, n_bytes = lib.clef_dtype_block_elems(kind), lib.clef_dtype_block_bytes(kind)
    if raw.size % n_bytes:
        raise ValueError(f"decode: expected a multiple of {n_bytes} bytes for {dtype}, got {raw.size}")
    out = np.empty(raw.size // n_bytes * elems, np.float32)
    lib.clef_dtype_decode(kind, ffi.from_buffer(raw), out.size, ffi.cast("float *", ffi.from_buffer(out)))
    return out


def ops() -> dict[str, str]:
    """All ops by the names that a graph's text has for them, with their formulas. Those without a method on Graph are
    made by the library itself: gradients, and kernels' own forms of other ops."""
    found: dict[str, str] = {}
    while (name := lib.clef_op_name(len(found))) != ffi.NULL:
        found[text_of(name)] = text_of(lib.clef_op_formula(len(found)))
    return found


def passes() -> list[str]:
    """The passes of Graph.optimize(), in their order."""
    found: list[str] = []
    while (name := lib.clef_pass_name(len(found))) != ffi.NULL:
        found.append(text_of(name))
    return found


@dataclass(frozen=True)
class Symbol:
    """A length that is known only when a graph runs: 1 to `bound`, for which memory is planned."""

    name: str
    bound: int
    times: int = 1

    def __mul__(self, n: int) -> Symbol:
        return Symbol(self.name, self.bound, self.times * whole("times", n, 1))

    __rmul__ = __mul__


def sym(name: str, bound: int = 512) -> Symbol:
    """A symbol for a shape: `clef.sym("T", 128)`; `2 * clef.sym("T")` is twice its value."""
    return Symbol(name, bound)


Dim = Union[int, Symbol]


class Value:
    """A value of a graph: an input, a weight, a constant, or what an op gives. `a @ b`, `a + b`, `-a` .. add ops."""

    __array_ufunc__ = None  # array @ value is this class's, not NumPy's

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
    def kind(self) -> str:
        """"input", "weight", "state", "constant" or "computed"."""
        return ("input", "weight", "state", "constant", "computed")[lib.clef_value_describe(self._value).kind]

    @property
    def dtype(self) -> str:
        """clef's name of its dtype: "f32", "i32", "q4_0" .."""
        return text_of(lib.clef_dtype_name(lib.clef_value_describe(self._value).dtype))

    @property
    def shape(self) -> tuple[int | str, ...]:
        """Numbers, and symbols by name ("T", "2 T")."""
        shape = lib.clef_value_describe(self._value).shape
        return tuple(self.graph._dim_text(shape.dim[i]) for i in range(shape.rank))

    @property
    def ndim(self) -> int:
        return int(lib.clef_value_describe(self._value).shape.rank)

    @property
    def inputs(self) -> list[Value | None]:
        """What its op reads; None where an input is absent."""
        n = ffi.new("int32_t *")
        lib.clef_value_input(self._value, 0, n)
        found = [lib.clef_value_input(self._value, i, ffi.NULL) for i in range(n[0])]
        return [None if x == ffi.NULL else Value(self.graph, x) for x in found]

    @property
    def text(self) -> str:
        """Its line of the graph's text."""
        return _written(lib.clef_value_write_text, self._value).rstrip("\n")

    def numbers_rows(self, i: int) -> bool:
        """Whether input i numbers rows of a tensor, so that integers outside it are not an error on the device, but read
        zeros."""
        return bool(lib.clef_value_row_range(self._value, i, ffi.new("clef_row_range *")))

    def named(self, name: str) -> Value:
        """Renames it, within the open scopes; a name that begins with "/" is taken without them."""
        self.graph._plans.clear()
        lib.clef_named(self._value, b"%s", ffi.new("char[]", c_text(name)))
        self.graph._check()
        return self

    def __repr__(self) -> str:
        return f"<clef.Value {self.name}: {self.dtype} [{', '.join(map(str, self.shape))}]>"

    def __matmul__(self, other: Operand) -> Value:
        return self.graph.matmul(self, other)

    def __rmatmul__(self, other: Operand) -> Value:
        return self.graph.matmul(other, self)

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


def _written(function: Callable[..., int], pointer: Any, *arguments: Any) -> str:
    """What a function writes to a FILE, which `...` stands for."""
    with tempfile.TemporaryFile("w+b", buffering=0) as file:
        call(function, pointer, *(file if x is ... else x for x in (arguments or (...,))))
        file.seek(0)
        return file.read().decode("utf-8")


class Graph(Ops):
    """A computation graph, built on the host without a device.

        g = clef.Graph()
        x = g.input("x", (clef.sym("T"), 64))
        y = g.softmax(x @ w)                     # w: an array [64, 10], or g.weight("w", array)
        g.output("y", y)
        result = g.run("auto", x=array)          # {"y": array [T, 10]}

    Where an op takes a value it also takes a number or an array, which becomes a constant. Arrays are NumPy's, or speak
    DLPack, as PyTorch's tensors do. A weight's memory is borrowed: it must not change while the graph is used. Without
    output(), the values that no other op reads are the results.

    An op that does not fit raises an Error that names it. The graph keeps the error, as the library has it: build it
    anew then.
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
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._finalizer = weakref.finalize(self, lib.clef_graph_destroy, pointer)

    @classmethod
    def _of(cls, pointer: Any, owner: Any) -> Graph:
        graph = cls.__new__(cls)
        graph._adopt(pointer, owner)
        return graph

    @classmethod
    def parse(cls, text: str, name: str = "graph", *, weights: Mapping[str, Any] | None = None) -> Graph:
        """The graph of a text, as str(graph) gives it. weights: their arrays, by name."""
        data = utf8(text)
        out = ffi.new("clef_graph **")
        call(lib.clef_graph_parse, data, len(data), c_text(name), out)
        graph = cls._of(out[0], None)
        for weight, array in (weights or {}).items():
            kind = _numpy_types.get(graph[weight].dtype)
            given = as_array(array, weight)
            graph._weights[weight] = as_c_array(given, kind, weight) if kind else np.ascontiguousarray(given)
        return graph

    def copy_graph(self) -> Graph:
        """A copy that shares nothing with the graph but the weights' arrays."""
        copy = Graph._of(lib.clef_graph_clone(self._graph), self._owner)
        copy._weights, copy._constants = dict(self._weights), self._constants
        return copy

    __copy__ = copy_graph

    # ---- leaves --------------------------------------------------------------------------------------------

    def _dim(self, dim: Dim) -> Any:
        if isinstance(dim, Symbol):
            found = lib.clef_symbol(self._graph, c_text(dim.name), whole("bound", dim.bound, most=2**63 - 1))
            self._check()
            found.n *= dim.times
            return found
        return new_struct("clef_dim *", {"n": whole("shape", dim, most=2**63 - 1), "symbol": 0})[0]

    def _dim_text(self, dim: Any) -> int | str:
        if not dim.symbol:
            return int(dim.n)
        name = text_of(lib.clef_graph_symbol(self._graph, dim.symbol, ffi.NULL))
        return name if dim.n == 1 else f"{dim.n} {name}"

    def _shape(self, shape: Sequence[Dim]) -> Any:
        if isinstance(shape, (int, str, bytes, Symbol)):
            raise TypeError(f"shape: expected a tuple of lengths, got {shape!r}")
        if len(shape) > lib.CLEF_MAX_DIMS:
            raise ValueError(f"shape: expected at most {lib.CLEF_MAX_DIMS} dims, got {len(shape)}")
        out = new_struct("clef_shape *", {"rank": len(shape)})
        for i, dim in enumerate(shape):
            out.dim[i] = self._dim(dim)
        return out[0]

    def _check(self) -> None:
        call(lib.clef_graph_error, self._graph)

    def _new(self, pointer: Any) -> Value:
        self._check()
        return Value(self, pointer)

    def input(self, name: str, shape: Sequence[Dim], dtype: Any = "float32") -> Value:
        """A value that each run is given: float32 or int32."""
        return self._new(lib.clef_input(self._graph, c_text(name), _dtype(dtype), self._shape(shape)))

    def weight(self, name: str, array: Any, dtype: str | None = None) -> Value:
        """A value that every run reads: float32, float16, int32 or int8. dtype: another one, also a block format such
        as "q8_0", to which the array is encoded."""
        data = as_array(array, name)
        shape = data.shape
        if dtype is not None and dtype not in _numpy_dtypes:
            data = encode(data, dtype)
        elif dtype is not None or data.dtype.name not in _numpy_dtypes:
            data = as_c_array(data, dtype or (np.int32 if data.dtype.kind in "iub" else np.float32), name)
        data = np.ascontiguousarray(data)
        value = self._new(lib.clef_weight(self._graph, c_text(name), _dtype(dtype or data.dtype), self._shape(shape)))
        self._weights[name] = data
        return value

    def state(self, name: str, shape: Sequence[int], dtype: str = "float32") -> Value:
        """A value that is zero at first and keeps what ops write to it from run to run, such as a KV cache."""
        return self._new(lib.clef_state(self._graph, c_text(name), _dtype(dtype), self._shape(shape)))

    def constant(self, data: Any, name: str | None = None) -> Value:
        """A copy of numbers: integers as int32, others as float32."""
        array = as_array(data, name or "constant")
        array = as_c_array(array, np.int32 if array.dtype.kind in "iub" else np.float32, name or "constant")
        self._constants += name is None
        return self._new(lib.clef_constant(self._graph, c_text(name or f"constant{self._constants}"),
                                           _dtype(array.dtype), self._shape(array.shape),
                                           ffi.from_buffer(array)))

    def output(self, name: str, value: Value) -> Value:
        """Marks a value as a result."""
        lib.clef_output(self._graph, c_text(name), self._as_value(value))
        self._check()
        return value

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Values made within get "name." before their names. Scopes called "layer0", "layer1" .. are drawn as layers,
        and several devices share them."""
        lib.clef_scope_push(self._graph, b"%s", ffi.new("char[]", c_text(name)))
        try:
            yield
        finally:
            lib.clef_scope_pop(self._graph)

    def _as_value(self, x: Operand) -> Any:
        if isinstance(x, Value):
            if x.graph is not self:
                raise ValueError(f"{x.name}: expected a value of this graph, got one of another")
            return x._value
        return self.constant(np.float32(x) if isinstance(x, (int, float)) else x)._value

    # ---- gradients -----------------------------------------------------------------------------------------

    def gradients(self, loss: Value, of: Sequence[Value], *, recompute: bool = False) -> list[Value | None]:
        """Adds what computes d loss / d x for each x in `of`; None where the loss does not depend on it. The loss has
        one element. recompute: what a layer computes is not kept for the backward pass, but computed again."""
        pointers = ffi.new("clef_value *[]", [self._as_value(x) for x in of])
        out = ffi.new("clef_value *[]", len(of))
        options = new_struct("clef_gradient_opts *", {"recompute": int(recompute)})
        call(lib.clef_graph_gradients, self._graph, self._as_value(loss), pointers, len(of), options, out)
        return [None if x == ffi.NULL else Value(self, x) for x in out]

    def weight_to_state(self, weight: Value) -> Value:
        """Makes a weight a state in float32, which optimisers can change."""
        call(lib.clef_weight_to_state, self._as_value(weight))
        return weight

    # ---- looking -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Value]:
        """The values in the order in which they are computed."""
        return (Value(self, lib.clef_graph_value(self._graph, i)) for i in range(len(self)))

    def __len__(self) -> int:
        return int(lib.clef_graph_n_values(self._graph))

    def __getitem__(self, name: str) -> Value:
        found = lib.clef_graph_find(self._graph, c_text(name))
        if found == ffi.NULL:
            raise KeyError(name)
        return Value(self, found)

    @property
    def inputs(self) -> dict[str, Value]:
        return {value.name: value for value in self if value.kind == "input"}

    @property
    def outputs(self) -> dict[str, Value]:
        found, name = {}, ffi.new("const char **")
        for i in range(lib.clef_graph_n_outputs(self._graph)):
            value = lib.clef_graph_output(self._graph, i, name)
            found[text_of(name[0])] = Value(self, value)
        return found

    @property
    def symbols(self) -> dict[str, int]:
        """The symbols, and the most that each can be."""
        found, bound = {}, ffi.new("int64_t *")
        for i in range(1, lib.clef_graph_n_symbols(self._graph) + 1):
            name = text_of(lib.clef_graph_symbol(self._graph, i, bound))
            found[name] = int(bound[0])
        return found

    def set_bound(self, symbol: str, value: int) -> Graph:
        """Lowers the most that a symbol can be."""
        self._plans.clear()  # they are of the graph as it was
        call(lib.clef_graph_set_bound, self._graph, c_text(symbol), value)
        return self

    def fix_symbols(self) -> Graph:
        """Makes each symbol the number that is its bound. Gradients need that."""
        self._plans.clear()
        call(lib.clef_graph_fix_symbols, self._graph)
        return self

    def optimize(self, last: str | None = None) -> Graph:
        """Runs the passes in their order, up to `last` (None: all). Values that are removed must not be used."""
        self._plans.clear()
        call(lib.clef_graph_optimize, self._graph, c_text(last) if last else ffi.NULL)
        return self

    def __str__(self) -> str:
        return _written(lib.clef_graph_write_text, self._graph)

    def __repr__(self) -> str:
        return f"<clef.Graph of {len(self)} values>"

    def to_json(self) -> str:
        """The graph as JSON: {"format": "clef-graph", ..}."""
        return _written(lib.clef_graph_write_json, self._graph)

    def to_dot(self, *, fold: bool = False, expand: Sequence[int] = ()) -> str:
        """The graph for Graphviz. fold: each layer is one node, but for those whose numbers are in `expand`."""
        if fold or expand:
            return _written(lib.clef_graph_write_folded_dot, self._graph, list(expand), len(expand), ...)
        return _written(lib.clef_graph_write_dot, self._graph)

    def to_onnx(self, path: str | os.PathLike[str] | None = None) -> bytes | None:
        """The graph with its weights as an ONNX model of opset 18: as bytes, or written to a file. The fused ops of
        optimize("fuse") have no form in ONNX."""
        keep = _WeightSource(self)
        options = new_struct("clef_onnx_opts *", {"weights": keep.function, "weights_user": keep.user})
        with keep.working():
            with tempfile.TemporaryFile("w+b", buffering=0) if path is None else open(path, "w+b", buffering=0) as file:
                call(lib.clef_graph_write_onnx, self._graph, file, options)
                if path is not None:
                    return None
                file.seek(0)
                return file.read()

    # ---- several ranks -------------------------------------------------------------------------------------

    def of_rank(self, rank: int, width: int = 1, stages: int = 1) -> Graph:
        """The graph that one rank of a layout runs (clef.Ranks). Weights and states have only the rank's part, and
        all_reduce, all_gather, send and receive exchange values with other ranks. It is for looking at: plans of a led
        device cut their graphs by themselves."""
        out = ffi.new("clef_graph **")
        call(lib.clef_graph_of_rank, self._graph, whole("width", width), whole("stages", stages), whole("rank", rank),
             out)
        return Graph._of(out[0], self._owner)

    def exchanges(self, *, rows: int = 0, keys: int = 0) -> list[dict[str, Any]]:
        """What a graph of of_rank() exchanges with other ranks, in its order: "op", "n_bytes", and "peer", the other
        rank of a send or receive, else -1. rows, keys: as in count()."""
        rows, keys = whole("rows", rows, 0), whole("keys", keys, 0)
        n = lib.clef_graph_exchanges(self._graph, rows, keys, ffi.NULL, 0)
        found = ffi.new("clef_exchange_info[]", max(n, 1))
        lib.clef_graph_exchanges(self._graph, rows, keys, found, n)
        return [fields_of(found[i]) for i in range(n)]

    def ranks_dot(self, width: int = 1, stages: int = 1, *, expand: Sequence[int] | None = ()) -> str:
        """The graphs of all ranks of a layout side by side, for Graphviz, with what the ranks exchange between them.
        Each layer is one node, but for those whose numbers are in `expand`; None: all layers are drawn."""
        graphs = [self.of_rank(rank, width, stages) for rank in range(max(width * stages, 1))]
        pointers = ffi.new("clef_graph *[]", [graph._graph for graph in graphs])
        layers = list(expand or ())
        return _written(lib.clef_graph_write_ranks_dot, pointers, len(graphs), width, layers,
                        -1 if expand is None else len(layers), ...)

    def count(self, *, rows: int = 0, keys: int = 0) -> dict[str, Any]:
        """What one run needs, by the names of clef_graph_counts: "n_launches", "flops", "bytes", "weight_bytes" .. No
        device is involved. rows, keys: the values of the symbols T and S; 0: their bounds."""
        out = ffi.new("clef_graph_counts *")
        call(lib.clef_graph_count, self._graph, whole("rows", rows, 0), whole("keys", keys, 0), out)
        return fields_of(out[0])

    def diff(self, other: Graph) -> str:
        """What differs: lines of "- " that only this graph has, "+ " that only the other has, "< " and "> " for values
        that changed. Equal graphs give ""."""
        return _written(lib.clef_graph_write_diff, self._graph, other._graph, ...,
                        ffi.new("clef_graph_difference *"))

    def _repr_svg_(self) -> str | None:
        """For notebooks, where Graphviz's `dot` is installed."""
        return graph_svg(self)

    def _repr_html_(self) -> str:
        return graph_html(self)

    # ---- running -------------------------------------------------------------------------------------------

    def plan(self, device: str | Device = "auto", *, exact: bool = False, batch_invariant: bool = False,
             variants: str | None = None, progress: Progress | None = None) -> Plan:
        """The graph, compiled for a device. exact: products with quantised weights keep their activations in float32.
        variants: "OP=NAME,..": kernels to use wherever they fit."""
        return Plan(self, Device(device) if isinstance(device, str) else device, exact=exact,
                    batch_invariant=batch_invariant, variants=variants, progress=progress)

    def run(self, device: str | Device = "auto", /, **inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Runs the graph once. inputs: an array for each input, by name, NumPy's or by DLPack; their shapes bind the
        symbols. The plan is kept for the next run on the same device."""
        key = (device if isinstance(device, str) else id(device), len(self), tuple(self.outputs))
        if key not in self._plans or not self._plans[key]._finalizer.alive:
            self._plans = {k: plan for k, plan in self._plans.items() if k[1:] == key[1:]}
            self._plans[key] = self.plan(device)
        return self._plans[key].run(**inputs)


_numpy_dtypes = ("float32", "float16", "int32", "int8")


class _WeightSource:
    """Where a plan finds the weights of a graph: the arrays of weight(), else the model's files."""

    def __init__(self, graph: Graph) -> None:
        self.owner = graph._owner
        self.arrays = dict(graph._weights)
        if self.owner is not None:
            self.function, self.user = self.owner._weight_source()
        else:
            self.function, self.user = lib.clef_py_weight, ffi.new_handle(self)

    def for_plan(self, graph: Graph, device: Device) -> dict[str, Any]:
        """The fields of clef_plan_opts. Other ranks open the weights by their name."""
        if self.owner is not None:
            name = self.owner._weights_name()
            return {"weights": self.function, "weights_user": self.user, "weights_name": name}
        weights = [value.name for value in graph if value.kind == "weight"]
        if weights and device._ranks is not None:
            names = ", ".join(weights[:3]) + (" .." if weights[3:] else "")
            raise ValueError(f"plan: the other ranks cannot open {names}: expected a model's graph, or one "
                             "without weights")
        return {"weights": self.function, "weights_user": self.user} if weights else {}

    def working(self) -> AbstractContextManager[None]:
        """The model is open, and stays so."""
        return nullcontext() if self.owner is None else cast("AbstractContextManager[None]", self.owner._working())

    def find(self, name: str, n_bytes: int) -> Any:
        array = self.arrays.get(name)
        return ffi.from_buffer(array) if array is not None and array.nbytes == n_bytes else ffi.NULL


class Plan:
    """A graph that was compiled for a device. It can run again and again; nothing is allocated on the device then."""

    def __init__(self, graph: Graph, device: Device, *, exact: bool = False, batch_invariant: bool = False,
                 variants: str | None = None, progress: Progress | None = None) -> None:
        self.device = device
        self._source = _WeightSource(graph)
        handle = ffi.new_handle(progress)
        chosen = ffi.new("char[]", c_text(variants)) if variants else ffi.NULL
        copy = graph.copy_graph()
        if not copy.outputs:
            _name_outputs(copy)
        outputs = {name: value.dtype for name, value in copy.outputs.items()}
        call(lib.clef_graph_optimize, copy._graph, ffi.NULL)
        out = ffi.new("clef_plan **")
        with self._source.working(), device._lock:
            options = new_struct("clef_plan_opts *", {
                **self._source.for_plan(copy, device), "variants": chosen, "batch_invariant": int(batch_invariant)})
            options.compile.exact = int(exact)
            options.compile.progress, options.compile.progress_user = lib.clef_py_progress, handle
            call(lib.clef_plan_create, device._pointer, copy._graph, options, out)
        self._plan = out[0]
        self._inputs = _leaves(graph)
        self._numbers = {name: lib.clef_plan_input(self._plan, c_text(name)) for name in self._inputs}
        self._outputs = outputs
        self._finalizer = weakref.finalize(self, _destroy, self._plan, device, (self._source, handle))
        device._register(self._finalizer)  # the device is closed after its plans
        if self._source.owner is not None:
            self._source.owner._register(self._finalizer, device._lock)

    def bind(self, **symbols: int) -> Plan:
        """Sets symbols for the next runs. run() binds those that are in the shapes of inputs by itself."""
        with self._working():
            for symbol, n in symbols.items():
                call(lib.clef_plan_bind, self._plan, lib.clef_plan_symbol(self._plan, c_text(symbol)), n)
        return self

    @contextmanager
    def _working(self) -> Iterator[None]:
        with self.device._lock:
            if not self._finalizer.alive:
                raise ClosedError("the plan was closed, or its device or model")
            yield

    def run(self, **inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """The outputs for these inputs, by name."""
        wrong = inputs.keys() ^ self._inputs.keys()
        if wrong:
            raise ValueError(f"run: expected the inputs {', '.join(self._inputs) or 'none'}; "
                             f"{'missing' if wrong - inputs.keys() else 'unknown'}: {', '.join(sorted(wrong))}")
        arrays = {name: as_c_array(array, _numpy_types[self._inputs[name][0]], name)
                  for name, array in inputs.items()}
        lengths = self._lengths(arrays)
        with self._working():
            return self._run(arrays, lengths)

    def _run(self, arrays: Mapping[str, npt.NDArray[Any]], lengths: Mapping[str, int]) -> dict[str, npt.NDArray[Any]]:
        for symbol, n in lengths.items():
            call(lib.clef_plan_bind, self._plan, lib.clef_plan_symbol(self._plan, c_text(symbol)), n)
        for name, array in arrays.items():
            number = self._numbers[name]
            if number >= 0:  # an input that nothing reads is none of the plan
                call(lib.clef_plan_write, self._plan, number, ffi.from_buffer(array), array.nbytes)
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
                is_wrong = n != times if symbol is None else n % times or found.get(symbol, n // times) != n // times
                if is_wrong:
                    wanted = [str(t) if s is None else s if t == 1 else f"{t} {s}" for t, s in dims]
                    raise ValueError(f"{name}: expected the shape [{', '.join(wanted)}], got {list(array.shape)}")
                if symbol:
                    found[symbol] = n // times
        return found

    def _read(self, name: str, dtype: str) -> npt.NDArray[Any]:
        rank, dims = ffi.new("int32_t *"), ffi.new("int64_t[4]")
        number = lib.clef_plan_output(self._plan, c_text(name))
        n_bytes = lib.clef_plan_output_bytes(self._plan, number, rank, dims)
        out = np.empty([dims[i] for i in range(rank[0])], _numpy_types[dtype])
        call(lib.clef_plan_read, self._plan, number, ffi.from_buffer(out) if n_bytes else ffi.NULL, n_bytes)
        return out

    def reset(self) -> None:
        """Zeroes every state."""
        with self._working():
            call(lib.clef_plan_reset, self._plan)

    @property
    def graph(self) -> Graph:
        """A copy of the graph as the plan runs it, after the passes that depend on the device."""
        with self._working():
            return Graph._of(lib.clef_graph_clone(lib.clef_plan_graph(self._plan)), self._source.owner)

    @property
    def stats(self) -> dict[str, Any]:
        """Memory, launches and the work of a run, by the names of clef_plan_stats."""
        with self._working():
            return fields_of(lib.clef_plan_describe(self._plan))

    def profile(self) -> Profile:
        """The times of the last run's launches. The device was opened with profile=True."""
        with self._working():
            return profile_of(lib.clef_plan_profile, self._plan)

    def launches(self) -> list[dict[str, Any]]:
        """The launches of the last run: node, op, variant, source, kernel."""
        with self._working():
            n = lib.clef_plan_launches(self._plan, ffi.NULL, 0)
            found = ffi.new("clef_launch_info[]", max(n, 1))
            lib.clef_plan_launches(self._plan, found, n)
            return [{**fields_of(found[i]), "groups": list(found[i].groups), "local": list(found[i].local)}
                    for i in range(n)]

    def tensors(self) -> list[dict[str, Any]]:
        """The values in the arena: name, in_place_of, offset, bytes, first, last."""
        with self._working():
            stage = lib.clef_plan_stage(self._plan, 0)
            n = lib.clef_plan_tensors(stage, ffi.NULL, 0)
            found = ffi.new("clef_plan_tensor[]", max(n, 1))
            lib.clef_plan_tensors(stage, found, n)
            return [fields_of(found[i]) for i in range(n)]

    def close(self) -> None:
        """Gives back its memory."""
        self._finalizer()

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def profile_of(function: Callable[..., int], pointer: Any) -> Profile:
    """The launch times that a function of the library gives for a plan or a session."""
    error = ffi.new("clef_error *")
    n = function(pointer, ffi.NULL, 0, error)
    times = ffi.new("clef_launch_time[]", max(n, 1))
    if n:
        function(pointer, times, n, error)
    if error.status:
        call(lambda err: _copy_error(error, err))
    return Profile([fields_of(times[i]) for i in range(n)])


def _copy_error(source: Any, target: Any) -> int:
    target[0] = source[0]
    return int(source.status)


def _name_outputs(graph: Graph) -> None:
    """Makes outputs of the values that no other value reads."""
    values = [value for value in graph if value.op]
    read = {x._value for value in values for x in value.inputs if x is not None}
    for value in values:
        if value._value not in read:
            graph.output(value.name, value)


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


def _destroy(plan: Any, device: Device, keep: Any) -> None:
    def close() -> None:
        lib.clef_plan_destroy(plan)
        keep  # noqa: B018  what the plan reads from lives until here

    device._lock.close(close)
