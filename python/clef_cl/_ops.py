"""The ops of a graph, as methods. Their exact formulas are in clef/graph.h and clef/gradient.h."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy.typing as npt

from ._arrays import whole
from ._native import ffi, lib, new_struct

if TYPE_CHECKING:
    from .graph import Dim, Value

# What an op takes: a value, a number, or an array, which becomes a constant.
Operand = Union["Value", float, npt.NDArray[Any]]

_pairings = {"halves": lib.CLEF_ROPE_HALVES, "interleaved": lib.CLEF_ROPE_INTERLEAVED,
             "interleaved_to_halves": lib.CLEF_ROPE_INTERLEAVED_TO_HALVES}


def _pairing(name: str) -> int:
    if name not in _pairings:
        raise ValueError(f"pairing: expected one of {', '.join(_pairings)}, got {name!r}")
    return int(_pairings[name])


class Ops:
    """The base class of Graph: a method for each op."""

    _graph: Any

    def _as_value(self, x: Operand) -> Any:
        raise NotImplementedError

    def _new(self, pointer: Any) -> Value:
        raise NotImplementedError

    def _shape(self, shape: Sequence[Dim]) -> Any:
        raise NotImplementedError

    def _dim(self, dim: Dim) -> Any:
        raise NotImplementedError

    def _op(self, function: Callable[..., Any], inputs: Sequence[Operand | None], struct: str = "",
            **options: Any) -> Value:
        pointers = [ffi.NULL if x is None else self._as_value(x) for x in inputs]
        if struct:
            pointers.append(new_struct(f"{struct} *", options))
        return self._new(function(self._graph, *pointers))

    def _op_of_struct(self, function: Callable[..., Any], inputs: str, values: dict[str, Operand | None], struct: str,
                      **options: Any) -> Value:
        """An op that takes its inputs in a struct."""
        given = {name: self._as_value(x) for name, x in values.items() if x is not None}
        return self._new(function(self._graph, new_struct(f"{inputs} *", given), new_struct(f"{struct} *", options)))

    # ---- products ------------------------------------------------------------------------------------------

    def matmul(self, a: Operand, b: Operand, bias: Operand | None = None, *, transpose_a: bool = False,
               transpose_b: bool = False, alpha: float = 1.0) -> Value:
        """alpha a b (+ bias); leading dims broadcast. transpose_b: b is [N, K], as torch.nn.Linear stores it."""
        return self._op(lib.clef_matmul, (a, b, bias), "clef_matmul_opts", transpose_b=int(transpose_b), alpha=alpha,
                        transpose_a=int(transpose_a))

    def linear(self, x: Operand, weight: Operand, bias: Operand | None = None) -> Value:
        """x weight^T (+ bias), with a weight [N, K] and a bias [N]: torch.nn.functional.linear()."""
        return self.matmul(x, weight, bias, transpose_b=True)

    def expert_matmul(self, x: Operand, w: Operand, ids: Operand, bias: Operand | None = None, *,
                      transpose_b: bool = False) -> Value:
        """Mixture of experts: x [B, T, K] times the matrices w [E, K, N] that ids [B, T, k] select for each token;
        the result is [B, T, k, N]."""
        return self._op(lib.clef_expert_matmul, (x, w, ids, bias), "clef_expert_matmul_opts",
                        transpose_b=int(transpose_b))

    def low_rank_add(self, y: Operand, x: Operand, down: Operand, up: Operand, ids: Operand) -> Value:
        """y + (x down[i]^T) up[i], with the pair of matrices i = ids[b] - 1 of each sequence; y where ids[b] is 0
        (LoRA)."""
        return self._op(lib.clef_low_rank_add, (y, x, down, up, ids))

    # ---- attention -----------------------------------------------------------------------------------------

    def softmax(self, x: Operand, mask: Operand | None = None, *, pos: Operand | None = None,
                sinks: Operand | None = None, scale: float = 1.0, softcap: float = 0.0, causal: bool = False,
                window: int = 0, log: bool = False) -> Value:
        """exp(z - max z) / sum exp(z - max z) over the last dim, with z = scale x + mask. log: its logarithm."""
        function, more = (lib.clef_softmax, ()) if sinks is None else (lib.clef_softmax_with_sinks, (sinks,))
        return self._op(function, (x, mask, pos, *more), "clef_softmax_opts", scale=scale, softcap=softcap,
                        causal=int(causal), window=window, log=int(log))

    def attention(self, q: Operand, k: Operand, v: Operand, mask: Operand | None = None, *,
                  pos: Operand | None = None, sinks: Operand | None = None, first: Operand | None = None,
                  scale: float = 1.0, causal: bool = False, window: int = 0, softcap: float = 0.0,
                  batch_invariant: bool = False) -> Value:
        """softmax(scale q k^T + mask) v of each head: q [B, H, T, D], k [B, Hk, S, D], v [B, Hk, S, E]; the result is
        [B, T, H, E]. sinks [H]: attention sinks. first [B, T]: documents packed into rows, and where each begins."""
        inputs: tuple[Operand | None, ...]
        if first is not None:
            if pos is not None or sinks is not None:
                raise ValueError("attention: first excludes pos and sinks")
            function, inputs = lib.clef_attention_of_documents, (q, k, v, mask, first)
        elif sinks is not None:
            function, inputs = lib.clef_attention_with_sinks, (q, k, v, mask, pos, sinks)
        else:
            function, inputs = lib.clef_attention, (q, k, v, mask, pos)
        return self._op(function, inputs, "clef_attention_opts", scale=scale, softcap=softcap, causal=int(causal),
                        window=window, batch_invariant=int(batch_invariant))

    def rope(self, x: Operand, freqs: Operand, pos: Operand | None = None, *, pairing: str = "halves",
             scale: float = 1.0, inverse: bool = False) -> Value:
        """Rotary position embedding of x [B, T, H, D] at positions pos[b] + t, by freqs [R/2] radians a position.
        pairing: "halves" (Hugging Face), "interleaved" or "interleaved_to_halves"."""
        return self._op(lib.clef_rope, (x, freqs, pos), "clef_rope_opts", pairing=_pairing(pairing), scale=scale,
                        inverse=int(inverse))

    def positions(self, pos: Operand, length: Dim) -> Value:
        """pos[b] + t for t < length, int32 [B, length]."""
        return self._op(lib.clef_positions, (pos,), "clef_positions_opts", length=self._dim(length))

    def relative_bias(self, x: Operand, queries: Dim, keys: Dim, pos: Operand | None = None, *,
                      each: bool = False) -> Value:
        """The bias of each distance between key and query, looked up in x [D, H]; [H, queries, keys] (T5). each: pos
        has the position of each query."""
        return self._op(lib.clef_relative_bias, (x, pos), "clef_relative_bias_opts", queries=self._dim(queries),
                        keys=self._dim(keys), each=int(each))

    def cache_write(self, cache: Operand, x: Operand, pos: Operand | None = None) -> Value:
        """Writes x [B, H, T, D] to a state [B, H, C, D] from position pos[b] on, in place, and returns the state after
        it."""
        return self._op(lib.clef_cache_write, (cache, x, pos))

    def cache_reorder(self, cache: Operand, order: Operand, rows: Dim = 0) -> Value:
        """Sequence b of a cache becomes what sequence order[b] was (beam search), in its first `rows` rows; 0: all."""
        return self._op(lib.clef_cache_reorder, (cache, order), "clef_cache_reorder_opts", rows=self._dim(rows))

    def paged_write(self, pool: Operand, x: Operand, pos: Operand, runs: Operand, pages: Operand) -> Value:
        """cache_write() to a pool of pages."""
        return self._op(lib.clef_paged_write, (pool, x, pos, runs, pages))

    def paged_attention(self, q: Operand, k_pool: Operand, v_pool: Operand, pos: Operand, runs: Operand,
                        pages: Operand, mask: Operand | None = None, sinks: Operand | None = None, *,
                        scale: float = 1.0, softcap: float = 0.0, window: int = 0) -> Value:
        """Causal attention of rows of several sequences over pools of pages."""
        values = {"q": q, "k_pool": k_pool, "v_pool": v_pool, "mask": mask, "pos": pos, "sinks": sinks, "runs": runs,
                  "pages": pages}
        return self._op_of_struct(lib.clef_paged_attention, "clef_paged_attention_in", values, "clef_attention_opts",
                                  scale=scale, softcap=softcap, causal=1, window=window)

    def cached_attention(self, q: Operand, k: Operand, v: Operand, k_cache: Operand, v_cache: Operand, *,
                         pos: Operand | None = None, freqs: Operand | None = None, mask: Operand | None = None,
                         q_norm: Operand | None = None, k_norm: Operand | None = None, runs: Operand | None = None,
                         pages: Operand | None = None, scale: float = 1.0, softcap: float = 0.0, causal: bool = False,
                         window: int = 0, pairing: str = "halves", rope_scale: float = 1.0, eps: float = 1e-6,
                         batch_invariant: bool = False) -> Value:
        """One attention step over a KV cache: norms, RoPE, the writes of k and v, and the attention, as one op."""
        values = {"q": q, "k": k, "v": v, "k_cache": k_cache, "v_cache": v_cache, "pos": pos, "freqs": freqs,
                  "mask": mask, "q_norm": q_norm, "k_norm": k_norm, "runs": runs, "pages": pages}
        return self._op_of_struct(lib.clef_cached_attention, "clef_cached_attention_in", values,
                                  "clef_cached_attention_opts", scale=scale, softcap=softcap, causal=int(causal),
                                  window=window, pairing=_pairing(pairing), rope_scale=rope_scale, eps=eps,
                                  batch_invariant=int(batch_invariant))

    # ---- linear attention ----------------------------------------------------------------------------------

    def causal_conv(self, x: Operand, w: Operand, state: Operand, pos: Operand | None = None,
                    runs: Operand | None = None) -> Value:
        """The convolution of each channel of x [B, T, C] over its last K positions, by w [C, K]; the last positions
        stay in the state. runs: rows of several sequences."""
        if runs is None:
            return self._op(lib.clef_causal_conv, (x, w, state, pos))
        return self._op(lib.clef_causal_conv_of_runs, (x, w, state, pos, runs))

    def gated_delta(self, q: Operand, k: Operand, v: Operand, a: Operand, b: Operand, rates: Operand, bias: Operand,
                    state: Operand, pos: Operand | None = None, runs: Operand | None = None, *,
                    eps: float = 1e-6, tiled: bool = False) -> Value:
        """Linear attention by the gated delta rule (arXiv:2412.06464). tiled: head h of v reads head h % Hk of q and
        k."""
        values = {"q": q, "k": k, "v": v, "a": a, "b": b, "rates": rates, "bias": bias, "state": state, "pos": pos,
                  "runs": runs}
        return self._op_of_struct(lib.clef_gated_delta, "clef_gated_delta_in", values, "clef_gated_delta_opts",
                                  eps=eps, tiled=int(tiled))

    def selective_scan(self, c: Operand, b: Operand, x: Operand, dt: Operand, skip: Operand, rates: Operand,
                       bias: Operand, state: Operand, pos: Operand | None = None, runs: Operand | None = None, *,
                       min: float = 0.0, max: float = 0.0) -> Value:
        """The selective scan of Mamba 2 (arXiv:2405.21060). min, max: bounds of the step; max 0: none."""
        values = {"c": c, "b": b, "x": x, "dt": dt, "skip": skip, "rates": rates, "bias": bias, "state": state,
                  "pos": pos, "runs": runs}
        return self._op_of_struct(lib.clef_selective_scan, "clef_selective_scan_in", values,
                                  "clef_selective_scan_opts", min=min, max=max)

    # ---- norms ---------------------------------------------------------------------------------------------

    def layer_norm(self, x: Operand, weight: Operand | None = None, bias: Operand | None = None, *,
                   eps: float = 1e-5) -> Value:
        """(x - mean) / sqrt(var + eps) weight + bias over the last dim."""
        return self._op(lib.clef_layer_norm, (x, weight, bias), "clef_norm_opts", eps=eps)

    def rms_norm(self, x: Operand, weight: Operand | None = None, *, eps: float = 1e-6) -> Value:
        """x / sqrt(mean(x^2) + eps) weight over the last dim."""
        return self._op(lib.clef_rms_norm, (x, weight), "clef_norm_opts", eps=eps)

    # ---- rows and elements ---------------------------------------------------------------------------------

    def gather(self, table: Operand, ids: Operand, *, axis: int = 0, first: int = 0) -> Value:
        """Rows of a table along an axis, by ids; an embedding lookup has axis 0. first: the id of row 0."""
        return self._op(lib.clef_gather, (table, ids), "clef_gather_opts", axis=axis, first=first)

    def gather_elements(self, x: Operand, ids: Operand) -> Value:
        """x[.., ids[.., j]] of each row: numpy.take_along_axis() of the last dim."""
        return self._op(lib.clef_gather_elements, (x, ids))

    def argmax(self, x: Operand) -> Value:
        """The index of the maximum in the last dim, int32; among equals the lowest."""
        return self._op(lib.clef_argmax, (x,))

    def topk(self, x: Operand, k: int) -> Value:
        """The indices of the k largest in the last dim, int32; k is at most 64."""
        return self._op(lib.clef_topk, (x,), "clef_topk_opts", k=k)

    def sample(self, logits: Operand, history: Operand, ids: Operand, pos: Operand, options: Operand) -> Value:
        """Samples the next token of each sequence on the device, as a session does."""
        return self._op(lib.clef_sample, (logits, history, ids, pos, options))

    def sample_rows(self, logits: Operand, recent: Operand, options: Operand) -> Value:
        """Samples a token of each row, as a batch does."""
        return self._op(lib.clef_sample_rows, (logits, recent, options))

    # ---- shapes --------------------------------------------------------------------------------------------

    def reshape(self, x: Value, shape: Sequence[Dim]) -> Value:
        """The same elements in another shape."""
        return self._new(lib.clef_reshape(self._graph, self._as_value(x), self._shape(shape)))

    def permute(self, x: Value, axes: Sequence[int]) -> Value:
        """Dim i of the result is dim axes[i] of x."""
        return self._op(lib.clef_permute, (x,), "clef_permute_opts", axes=[whole("axes", axis) for axis in axes])

    def slice(self, x: Value, axis: int, start: int, size: Dim) -> Value:
        """`size` elements of an axis from `start`; a negative start counts from its end."""
        return self._op(lib.clef_slice, (x,), "clef_slice_opts", axis=axis, start=start, size=self._dim(size))

    def concat(self, a: Operand, b: Operand, *, axis: int = 0) -> Value:
        """a and b joined along an axis."""
        return self._op(lib.clef_concat, (a, b), "clef_concat_opts", axis=axis)

    def pad(self, x: Operand, axis: int, before: int, after: int = 0) -> Value:
        """x with zeros around it along an axis."""
        return self._op(lib.clef_pad, (x,), "clef_pad_opts", axis=axis, before=before, after=after)

    def expand(self, x: Operand, like: Operand) -> Value:
        """x broadcast to the shape of `like`."""
        return self._op(lib.clef_expand, (x, like))

    def copy(self, x: Operand) -> Value:
        """A dense copy; of a float dtype or a block format as float32."""
        return self._op(lib.clef_copy, (x,))

    def cast(self, x: Operand, dtype: str) -> Value:
        """x rounded to "float16" or "bfloat16"; copy() makes it float32 again."""
        from .graph import _dtype

        return self._op(lib.clef_cast, (x,), "clef_cast_opts", dtype=_dtype(dtype))

    # ---- reductions ----------------------------------------------------------------------------------------

    def sum(self, x: Operand, axes: Sequence[int] | None = None) -> Value:
        """The sum over the last dim, or over these axes; they become 1."""
        if axes is None:
            return self._op(lib.clef_reduce, (x,), "clef_reduce_opts", kind=lib.CLEF_REDUCE_SUM)
        rank = x.ndim if hasattr(x, "ndim") else 0
        bits = 0
        for axis in [whole("axes", axis) for axis in axes]:
            if not -rank <= axis < rank:
                raise ValueError(f"sum: expected axes of {rank} dims, got {axis}")
            bits |= 1 << axis % rank
        return self._op(lib.clef_sum_axes, (x,), "clef_sum_axes_opts", axes=bits)

    def mean(self, x: Operand) -> Value:
        """The mean over the last dim, which becomes 1."""
        return self._op(lib.clef_reduce, (x,), "clef_reduce_opts", kind=lib.CLEF_REDUCE_MEAN)

    def max(self, x: Operand) -> Value:
        """The maximum over the last dim, which becomes 1."""
        return self._op(lib.clef_reduce, (x,), "clef_reduce_opts", kind=lib.CLEF_REDUCE_MAX)

    def log_sum_exp(self, x: Operand) -> Value:
        """log sum exp(x) over the last dim, which goes."""
        return self._op(lib.clef_log_sum_exp, (x,))

    # ---- losses, dropout, optimisers -----------------------------------------------------------------------

    def cross_entropy(self, logits: Operand, labels: Operand) -> Value:
        """The cross-entropy of each row of logits [.., N] with its label, int32 [..]; 0 where a label is negative."""
        return self._op(lib.clef_cross_entropy, (logits, labels))

    def linear_cross_entropy(self, x: Operand, w: Operand, labels: Operand, bias: Operand | None = None, *,
                             alpha: float = 1.0, pieces: int = 0) -> Value:
        """cross_entropy() of the logits alpha x w^T (+ bias), which are never whole in memory when pieces > 1."""
        return self._op(lib.clef_linear_cross_entropy, (x, w, bias, labels), "clef_linear_cross_entropy_opts",
                        alpha=alpha, pieces=pieces)

    def dropout(self, x: Operand, random: Operand, p: float = 0.1, *, stream: int = 0) -> Value:
        """Dropout with the rate p, decided by random, int32 [4]: a key, and a counter such as the step."""
        return self._op(lib.clef_dropout, (x, random), "clef_dropout_opts", p=p, stream=stream)

    def accumulate(self, state: Operand, x: Operand, keep: Operand) -> Value:
        """state = keep[0] state + x, in place."""
        return self._op(lib.clef_accumulate, (state, x, keep))

    def sum_squares(self, x: Operand, before: Operand | None = None) -> Value:
        """64 partial sums of the squares of x, added to those of `before`."""
        return self._op(lib.clef_sum_squares, (x, before))

    def adamw(self, p: Operand, grad: Operand, m: Operand, v: Operand, numbers: Operand, norm: Operand, *,
              decays: bool = True) -> Value:
        """A step of AdamW for the state p, in place. Trainer adds these by itself."""
        return self._op(lib.clef_adamw, (p, grad, m, v, numbers, norm), "clef_optimizer_opts", decays=int(decays))

    def sgd(self, p: Operand, grad: Operand, m: Operand, numbers: Operand, norm: Operand, *,
            decays: bool = True) -> Value:
        """A step of SGD with momentum for the state p, in place. Trainer adds these by itself."""
        return self._op(lib.clef_sgd, (p, grad, m, numbers, norm), "clef_optimizer_opts", decays=int(decays))

    # ---- elementwise ---------------------------------------------------------------------------------------

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

    def affine(self, x: Operand, scale: float = 1.0, shift: float = 0.0) -> Value:
        """scale x + shift."""
        return self._op(lib.clef_affine, (x,), "clef_affine_opts", scale=scale, shift=shift)

    def swiglu(self, gate: Operand, up: Operand) -> Value:
        """silu(gate) up (arXiv:2002.05202)."""
        return self._op(lib.clef_swiglu, (gate, up))

    def clamped_swiglu(self, gate: Operand, up: Operand, *, alpha: float, limit: float) -> Value:
        """g sigmoid(alpha g) (u + 1), with g = min(gate, limit) and u = up within -limit .. limit (gpt-oss)."""
        return self._op(lib.clef_clamped_swiglu, (gate, up), "clef_clamped_swiglu_opts", alpha=alpha, limit=limit)

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
