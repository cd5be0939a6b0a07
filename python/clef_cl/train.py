"""Training: graphs with a loss of their own, and language models."""
from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import as_c_array, whole
from ._native import ClosedError, c_text, call, ffi, fields_of, lib, new_struct, path_bytes, text_of
from ._pages import History, Profile
from .dataset import Dataset, Paths, choose
from .device import Device, Progress
from .graph import Graph, _leaves, _numpy_types, profile_of
from .model import Floats, Model, _names

_optimizers = {"adamw": lib.CLEF_ADAMW, "sgd": lib.CLEF_SGD}
_schedules = {"constant": lib.CLEF_SCHEDULE_CONSTANT, "cosine": lib.CLEF_SCHEDULE_COSINE,
              "linear": lib.CLEF_SCHEDULE_LINEAR}
_precisions = {"float32": lib.CLEF_F32, "float16": lib.CLEF_F16, "bfloat16": lib.CLEF_BF16}
_arrays = {"weight": lib.CLEF_TRAIN_WEIGHT, "gradient": lib.CLEF_TRAIN_GRADIENT, "moment1": lib.CLEF_TRAIN_MOMENT1,
           "moment2": lib.CLEF_TRAIN_MOMENT2}


@dataclass
class Optimizer:
    """How parameters change.

    kind      "adamw" or "sgd"; betas[0] is SGD's momentum
    lr        the learning rate after `warmup` steps
    schedule  "constant", "cosine" or "linear": down to final * lr at step `steps`
    clip      the largest norm of all gradients; 0: any
    compute   "float32", "float16" or "bfloat16": what products are rounded to
    """

    kind: str = "adamw"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1
    clip: float = 1.0
    schedule: str = "constant"
    warmup: int = 0
    steps: int = 0
    final: float = 0.0
    compute: str = "float32"
    loss_scale: float = 0.0
    recompute: bool = False

    def new_options(self) -> Any:
        """A clef_train_opts."""
        for name in ("lr", "weight_decay", "clip", "warmup", "steps", "final", "loss_scale", "eps"):
            value = getattr(self, name)
            if not isinstance(value, (int, float, np.number)) or not 0 <= value < float("inf"):
                raise ValueError(f"{name}: expected a number from 0, got {value!r}")
        if not (isinstance(self.betas, (tuple, list)) and len(self.betas) == 2 and all(0 <= b < 1 for b in self.betas)):
            raise ValueError(f"betas: expected two numbers from 0 to below 1, got {self.betas!r}")
        options = ffi.new("clef_train_opts *", lib.clef_train_defaults())
        options.optimizer = choose("kind", _optimizers, self.kind)
        options.rate, (options.beta1, options.beta2), options.eps = self.lr, self.betas, self.eps
        options.decay, options.clip = self.weight_decay, self.clip
        options.schedule = choose("schedule", _schedules, self.schedule)
        most = 2**63 - 1
        options.n_warmup, options.n_steps = whole("warmup", self.warmup, 0, most), whole("steps", self.steps, 0, most)
        options.final_rate = self.final
        options.compute = choose("compute", _precisions, self.compute)
        options.loss_scale, options.recompute = self.loss_scale, int(self.recompute)
        return options

    def rate(self, step: int) -> float:
        """The learning rate of a step, from 1 on."""
        return float(lib.clef_train_rate(self.new_options(), step))


class _Parameters:
    """What trainers of graphs and of models have in common. `_trainer` is a clef_trainer."""

    device: Device
    history: History
    _trainer: Any
    _finalizer: Any

    def _open(self) -> Any:
        if not self._finalizer.alive:
            raise ClosedError("the trainer was closed, or its device or model")
        return self._trainer

    def _numbers(self) -> dict[str, int]:
        trainer = self._open()
        return {text_of(lib.clef_trainer_parameter(trainer, i).name): i
                for i in range(lib.clef_trainer_n_parameters(trainer))}

    def _number(self, name: str) -> tuple[int, tuple[int, ...]]:
        found = self._numbers()
        if name not in found:
            raise KeyError(f"{name}: no parameter has this name")
        shape = lib.clef_trainer_parameter(self._trainer, found[name]).shape
        return found[name], tuple(shape.dim[i].n for i in range(shape.rank))

    @property
    def parameters(self) -> dict[str, Floats]:
        """Copies of the trained weights, by name."""
        return {name: self.parameter(name) for name in self._numbers()}

    def parameter(self, name: str, which: str = "weight") -> Floats:
        """A copy of a parameter's "weight", "gradient", "moment1" or "moment2"."""
        number, shape = self._number(name)
        out = np.empty(shape, np.float32)
        with self.device._lock:
            call(lib.clef_trainer_read, self._open(), number, choose("which", _arrays, which),
                 ffi.cast("float *", ffi.from_buffer(out)), out.size)
        return out

    def set_parameter(self, name: str, array: Any, which: str = "weight") -> None:
        """Writes it."""
        number, shape = self._number(name)
        data = as_c_array(array, np.float32, name)
        if data.shape != shape:
            raise ValueError(f"{name}: expected the shape {list(shape)}, got {list(data.shape)}")
        with self.device._lock:
            call(lib.clef_trainer_set, self._open(), number, choose("which", _arrays, which),
                 ffi.cast("const float *", ffi.from_buffer(data)), data.size)

    @property
    def n_steps(self) -> int:
        """Steps that were made; setting it resumes a run."""
        return int(lib.clef_trainer_step(self._open()))

    @n_steps.setter
    def n_steps(self, n: int) -> None:
        lib.clef_trainer_set_step(self._open(), whole("n_steps", n, 0, 2**63 - 1))

    @property
    def loss_scale(self) -> tuple[float, int]:
        """The scale of the loss, and the updates since it last changed: what a run with float16 resumes from."""
        scale = lib.clef_trainer_scale(self._open())
        return float(scale.scale), int(scale.n_updates)

    @loss_scale.setter
    def loss_scale(self, value: tuple[float, int]) -> None:
        scale = new_struct("clef_train_scale *", {"scale": value[0], "n_updates": value[1]})
        call(lib.clef_trainer_set_scale, self._open(), scale[0])

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Changes the learning rate, the schedule and the other numbers for the next steps."""
        lib.clef_trainer_set_opts(self._open(), optimizer.new_options())

    @property
    def stats(self) -> dict[str, Any]:
        """Memory and work, by the names of clef_train_stats."""
        return fields_of(lib.clef_trainer_describe(self._open()))

    @property
    def graph(self) -> Graph:
        """A copy of the graph that computes loss and gradients."""
        return Graph._of(lib.clef_graph_clone(lib.clef_trainer_graph(self._open())), self)

    def _weight_source(self) -> tuple[Any, Any]:
        raise ValueError("the graph of a trainer has no weights of its own")

    def profile(self) -> Profile:
        """The times of the last part's launches. The device was opened with profile=True."""
        with self.device._lock:
            return profile_of(lib.clef_plan_profile, lib.clef_trainer_plan(self._open()))

    def _note(self, result: Any) -> dict[str, Any]:
        row = {"step": int(result.step), "loss": float(result.loss), "grad_norm": float(result.grad_norm),
               "rate": float(result.rate), "is_finite": bool(result.is_finite)}
        self.history.append(row)
        return row

    def close(self) -> None:
        """Gives back its memory."""
        self._finalizer()


class Trainer(_Parameters):
    """Trains the weights of a graph.

        g = clef.Graph()
        x, y = g.input("x", (64, 2)), g.input("y", (64, 1))
        e = g.square(g.linear(x, g.weight("w", np.zeros((1, 2), np.float32))) - y)
        g.output("loss", g.reshape(g.sum(e, axes=[0, 1]), ()))
        t = clef.Trainer(g, lr=0.05)
        for x, y in batches:
            loss = t.step(x=x, y=y)["loss"]
        t.parameters["w"]

    graph   symbols become their bounds
    loss    the name of the loss: float32, one element
    trains  called with a weight's name: whether it is trained. None: all are
    taps    names of values, such as "h" or "h.grad", that tap() reads
    options the fields of Optimizer: lr, weight_decay, schedule ..

    `history` has every step; in a notebook it is a curve.
    """

    def __init__(self, graph: Graph, loss: str = "loss", *, device: str | Device = "auto",
                 trains: Callable[[str], bool] | None = None, taps: Sequence[str] = (),
                 progress: Progress | None = None, **optimizer: Any) -> None:
        self.device = Device(device) if isinstance(device, str) else device
        self.history = History()
        self._arrays = dict(graph._weights)
        self._owner = graph._owner
        names = [ffi.new("char[]", c_text(name)) for name in taps]
        tapped = ffi.new("char *[]", names) if names else ffi.NULL
        handles = [ffi.new_handle(x) for x in (self._arrays_source(graph), trains, progress)]
        options = Optimizer(**optimizer).new_options()
        options.taps, options.n_taps = tapped, len(names)
        options.weights, options.weights_user = lib.clef_py_weight, handles[0]
        if graph._owner is not None:
            options.weights, options.weights_user = graph._owner._weight_source()
        if trains is not None:
            options.trains, options.trains_user = lib.clef_py_chooses, handles[1]
        options.compile.progress, options.compile.progress_user = lib.clef_py_progress, handles[2]
        out = ffi.new("clef_trainer **")
        with self.device._lock:
            call(lib.clef_trainer_create, self.device._pointer, graph._graph, c_text(loss), options, out)
        self._trainer = out[0]
        self._inputs, self._bounds = _leaves(graph), graph.symbols
        self._taps = {name: i for i, name in enumerate(taps)}
        self._finalizer = weakref.finalize(self, _destroy, lib.clef_trainer_destroy, self._trainer, self.device,
                                           (handles, graph))
        self.device._register(self._finalizer)
        if graph._owner is not None:
            graph._owner._register(self._finalizer, self.device._lock)

    def _arrays_source(self, graph: Graph) -> Any:
        from .graph import _WeightSource

        return _WeightSource(graph)

    def write(self, **inputs: Any) -> None:
        """Sets inputs of the graph for the next parts."""
        for name, data in inputs.items():
            if name not in self._inputs:
                raise ValueError(f"write: expected one of {', '.join(self._inputs)}, got {name}")
            dtype, dims = self._inputs[name]
            array = as_c_array(data, _numpy_types[dtype], name)
            wanted = [times * self._bounds[symbol] if symbol else times for times, symbol in dims]
            if list(array.shape) != wanted:
                raise ValueError(f"{name}: expected the shape {wanted}, got {list(array.shape)}")
            with self.device._lock:
                call(lib.clef_trainer_write, self._open(), c_text(name), ffi.from_buffer(array), array.nbytes)

    def add(self, **inputs: Any) -> None:
        """Adds a part to the step: its loss, and its gradients."""
        self.write(**inputs)
        with self.device._lock:
            call(lib.clef_trainer_add, self._open())

    def update(self) -> dict[str, Any]:
        """Ends the step: changes the parameters. Returns step, loss, grad_norm, rate and is_finite."""
        out = ffi.new("clef_train_result *")
        with self.device._lock:
            call(lib.clef_trainer_update, self._open(), out)
        return self._note(out)

    def step(self, **inputs: Any) -> dict[str, Any]:
        """A step of one part: add(), then update()."""
        self.add(**inputs)
        return self.update()

    def evaluate(self, **inputs: Any) -> float:
        """The loss, without gradients and dropout."""
        self.write(**inputs)
        loss = ffi.new("double *")
        with self.device._lock:
            call(lib.clef_trainer_evaluate, self._open(), loss)
        return float(loss[0])

    def find_not_finite(self) -> str | None:
        """The name of the first value that is not finite with the present inputs; None: all are finite."""
        name = ffi.new("char[256]")
        with self.device._lock:
            call(lib.clef_trainer_find_not_finite, self._open(), name, 256)
        return text_of(name) or None

    def tap(self, name: str, n: int) -> Floats:
        """The n elements of a tapped value in the last part."""
        if name not in self._taps:
            raise KeyError(f"{name}: expected one of the taps {', '.join(self._taps) or '(none)'}")
        out = np.empty(n, np.float32)
        with self.device._lock:
            call(lib.clef_trainer_tap, self._open(), self._taps[name], ffi.cast("float *", ffi.from_buffer(out)), n)
        return out


class ModelTrainer(_Parameters):
    """Trains a language model, or a LoRA adapter beside it, on rows of a Dataset. train() is the loop around it.

    n_tokens  of a row; 0: the model's context, at most 1024. n_rows: of a part, n_parts: parts of a step
    lora_rank 0: all weights are trained; else an adapter of this rank
    options   the fields of Optimizer
    """

    def __init__(self, model: Model, *, n_tokens: int = 0, n_rows: int = 0, n_parts: int = 0, dropout: float = 0.0,
                 seed: int = 0, lora_rank: int = 0, lora_alpha: float = 0.0, lora_targets: Sequence[str] = (),
                 progress: Progress | None = None, **optimizer: Any) -> None:
        self.model, self.device = model, model.device
        self.history = History()
        targets = ffi.new("char[]", c_text(",".join(lora_targets))) if lora_targets else ffi.NULL
        handle = ffi.new_handle(progress)
        options = new_struct("clef_model_train_opts *", {
            "n_tokens": n_tokens, "n_rows": n_rows, "n_parts": n_parts, "dropout": dropout, "seed": seed,
            "lora_rank": lora_rank, "lora_alpha": lora_alpha, "lora_targets": targets})
        options.optimizer = Optimizer(**optimizer).new_options()[0]
        options.optimizer.compile.progress = lib.clef_py_progress
        options.optimizer.compile.progress_user = handle
        out = ffi.new("clef_model_trainer **")
        with model._working():
            call(lib.clef_model_trainer_create, self.device._pointer, model._model, options, out)
        self._pointer = out[0]
        self._trainer = lib.clef_model_trainer_graph(self._pointer)
        self._finalizer = weakref.finalize(self, _destroy, lib.clef_model_trainer_destroy, self._pointer, self.device,
                                           handle)
        model._register(self._finalizer, self.device._lock)

    @property
    def n_tokens(self) -> int:
        """Tokens of a row."""
        self._open()
        return int(lib.clef_model_trainer_n_tokens(self._pointer))

    @property
    def n_rows(self) -> int:
        """Rows of a step."""
        self._open()
        return int(lib.clef_model_trainer_n_rows(self._pointer))

    def set_data(self, dataset: Dataset) -> None:
        """Notes the data, so that a checkpoint is not resumed with other data."""
        self._open()
        lib.clef_model_trainer_set_data(self._pointer, c_text(dataset.info["fingerprint"]))

    def _rows(self, rows: dict[str, Any]) -> tuple[Any, int, list[npt.NDArray[np.int32]]]:
        if not isinstance(rows, Mapping):
            raise TypeError(f"rows: expected a dict of arrays, got {type(rows).__name__}")
        known = ("input_ids", "attention_mask", "labels", "first", "positions", "decoder_input_ids")
        unknown = rows.keys() - set(known)
        if unknown:
            raise ValueError(f"rows: expected some of {', '.join(known)}, got {', '.join(sorted(unknown))}")
        missing = {"input_ids", "labels"} - rows.keys()
        if missing:
            raise ValueError(f"rows: expected input_ids and labels, got no {' and no '.join(sorted(missing))}")
        arrays = {name: as_c_array(array, np.int32, name) for name, array in rows.items()}
        shape = [len(arrays["input_ids"]) if arrays["input_ids"].ndim else 0, self.n_tokens]
        for name, array in arrays.items():
            if list(array.shape) != shape:
                raise ValueError(f"{name}: expected the shape {shape}, got {list(array.shape)}")
        struct = new_struct("clef_rows *", {name: ffi.cast("int32_t *", ffi.from_buffer(array))
                                         for name, array in arrays.items()})
        return struct, len(arrays["input_ids"]), list(arrays.values())

    def step(self, rows: dict[str, Any]) -> dict[str, Any]:
        """A step on rows as Dataset.rows() gives them. Returns step, loss, grad_norm, rate and is_finite."""
        struct, n, _keep = self._rows(rows)
        out = ffi.new("clef_train_result *")
        with self.model._working():
            self._open()
            call(lib.clef_model_trainer_step, self._pointer, struct, n, out)
        return self._note(out)

    def evaluate(self, rows: dict[str, Any]) -> tuple[float, int]:
        """The sum of the losses of rows, and the number of labels that count."""
        struct, n, _keep = self._rows(rows)
        total, labels = ffi.new("double *"), ffi.new("int64_t *")
        with self.model._working():
            self._open()
            call(lib.clef_model_trainer_evaluate, self._pointer, struct, n, total, labels)
        return float(total[0]), int(labels[0])

    def publish(self) -> None:
        """Copies the present weights, an adapter merged, into the open model, which generates with them from then on.
        Of several trainers the one that published last counts. Once it is closed, the model has the weights of its
        files again. A Batch keeps the weights with which it was made."""
        with self.model._working():
            self._open()
            call(lib.clef_model_trainer_publish, self._pointer)
            self.model._forget_sessions()
            self.model._published = self

    def close(self) -> None:
        """Gives back its memory. A model that it was published to has its own weights again."""
        with self.model._lock:
            if self.model._published is self:
                self.model._published = None
                self.model._forget_sessions()
            self._finalizer()

    def _save_options(self, dtype: str, note: Callable[[str], Any] | None) -> tuple[Any, Any]:
        handle = ffi.new_handle(note or (lambda text: None))
        return new_struct("clef_save_opts *", {"dtype": choose("dtype", _precisions, dtype), "note": lib.clef_py_notice,
                                            "note_user": handle}), handle

    def save(self, path: str | os.PathLike[str], *, dtype: str = "float32",
             note: Callable[[str], Any] | None = None) -> None:
        """Writes the trained model, as a folder or a .gguf file, or the adapter as PEFT's folder."""
        options, _keep = self._save_options(dtype, note)
        with self.model._working():
            self._open()
            call(lib.clef_model_trainer_save, self._pointer, path_bytes(path), options)

    def check_save(self, path: str | os.PathLike[str], *, dtype: str = "float32") -> None:
        """Raises what save() would raise whatever the weights will be. To be called before a long training."""
        options, _keep = self._save_options(dtype, None)
        with self.model._working():
            self._open()
            call(lib.clef_model_trainer_check_save, self._pointer, path_bytes(path), options)

    def checkpoint(self, folder: str | os.PathLike[str], *, keep: int = 2) -> None:
        """Writes folder/ckpt-STEP.clef, from which resume() goes on to the same weights."""
        with self.model._working():
            self._open()
            call(lib.clef_model_trainer_checkpoint, self._pointer, path_bytes(folder), keep)

    def resume(self, folder: str | os.PathLike[str], *, note: Callable[[str], Any] | None = None) -> None:
        """Goes on from the newest sound checkpoint in a folder."""
        handle = ffi.new_handle(note or (lambda text: None))
        with self.model._working():
            self._open()
            call(lib.clef_model_trainer_resume, self._pointer, path_bytes(folder), lib.clef_py_notice, handle)


def _destroy(function: Callable[[Any], None], pointer: Any, device: Device, keep: Any) -> None:
    def close() -> None:
        function(pointer)
        keep  # noqa: B018  what the trainer reads from lives until here

    device._lock.close(close)


def has_checkpoint(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder has a checkpoint, sound or not."""
    return bool(lib.clef_train_has_checkpoint(path_bytes(folder)))


def validate(trainer: ModelTrainer, dataset: Dataset) -> float:
    """The mean loss over the validation rows of a dataset."""
    total, labels = 0.0, 0
    n_rows = dataset.info["validation"]["n_rows"]
    for begin in range(0, n_rows, trainer.n_rows):
        part, n = trainer.evaluate(dataset.rows(begin, min(trainer.n_rows, n_rows - begin), "validation"))
        total, labels = total + part, labels + n
    return total / labels if labels else float("nan")


def train(model: Model, data: Dataset | Paths, *, epochs: float = 1.0, max_steps: int = 0,
          out: str | os.PathLike[str] | None = None, checkpoints: str | os.PathLike[str] | None = None,
          checkpoint_every: int = 0, resume: bool = False, validate_every: int = 0, validation: float | Paths = 0.05,
          n_tokens: int = 0, n_rows: int = 0, dtype: str = "float32", lr: float | None = None,
          warmup: int | None = None, schedule: str = "cosine", final: float = 0.1, seed: int = 0, publish: bool = True,
          on_step: Callable[[dict[str, Any]], Any] | None = None, **options: Any) -> History:
    """Trains a model on texts, as the command `clef train` does, and returns the history of its losses.

        m = clef.Model("folder")
        clef.train(m, ["plays.txt"], max_steps=100, lora_rank=8, out="adapter")

    data            a Dataset, or text files (see Dataset)
    epochs, max_steps  how long: max_steps counts if it is given
    out             where the model, or the adapter, is written at the end
    checkpoints     a folder: every checkpoint_every steps (0: at the end) a checkpoint is written there; resume: the
                    run goes on from the newest one
    validate_every  steps between validations; 0: one at the end
    publish         the open model has the new weights afterwards
    on_step         called with each step; a true result ends the training
    lr              None: 1e-3, with an adapter 1e-4. warmup: None: a tenth of the steps, at most 100
    options         of ModelTrainer and Optimizer: lora_rank, n_parts, dropout, weight_decay, compute ..

    Ctrl-C ends it after a step: KeyboardInterrupt. With checkpoints and resume=True the next call goes on.
    """
    hparams = model.hparams
    n_tokens = n_tokens or (data.n_tokens if isinstance(data, Dataset) else 0) or min(hparams["n_context"], 1024)
    dataset = data if isinstance(data, Dataset) else Dataset(data, model, n_tokens=n_tokens, validation=validation,
                                                            seed=seed)
    rows = (n_rows or 8) * (options.get("n_parts") or 1)
    steps = max_steps or dataset.n_steps(epochs, rows)
    lr = lr if lr is not None else 1e-4 if options.get("lora_rank") else 1e-3
    warmup = min(100, steps // 10) if warmup is None else warmup
    trainer = ModelTrainer(model, n_tokens=n_tokens, n_rows=n_rows, seed=seed, lr=lr, warmup=warmup, steps=steps,
                           schedule=schedule, final=final, **options)
    try:  # a trainer that published its weights stays open as long as its model
        trainer.set_data(dataset)
        if out is not None:
            trainer.check_save(out, dtype=dtype)
        if resume and checkpoints is not None and has_checkpoint(checkpoints):
            trainer.resume(checkpoints)
        _run(trainer, dataset, steps, checkpoints, checkpoint_every, validate_every, on_step)
        if out is not None:
            trainer.save(out, dtype=dtype)
        if publish:
            trainer.publish()
        return trainer.history
    finally:
        if model._published is not trainer:
            trainer.close()


def _run(trainer: ModelTrainer, dataset: Dataset, steps: int, checkpoints: Any, checkpoint_every: int,
         validate_every: int, on_step: Callable[[dict[str, Any]], Any] | None) -> None:
    is_asked = False
    row: dict[str, Any] | None = None
    while trainer.n_steps < steps and not is_asked:
        row = trainer.step(dataset.rows(trainer.n_steps * trainer.n_rows, trainer.n_rows))
        is_asked = bool(on_step and on_step(row))
        is_last = is_asked or trainer.n_steps >= steps
        if dataset.info["validation"]["n_rows"] and (is_last or validate_every and row["step"] % validate_every == 0):
            row["validation_loss"] = validate(trainer, dataset)
        if checkpoints is not None and (is_last or checkpoint_every and row["step"] % checkpoint_every == 0):
            os.makedirs(checkpoints, exist_ok=True)
            trainer.checkpoint(checkpoints)


# ---- new models --------------------------------------------------------------------------------------------


def new_model(config: str | os.PathLike[str], tokenizer: str | os.PathLike[str], out: str | os.PathLike[str], *,
              seed: int = 0) -> None:
    """Writes a model folder with weights as at the start of a training: of a config.json, or a folder with one, and of
    a tokenizer's folder."""
    call(lib.clef_train_check_folder, path_bytes(out))
    call(lib.clef_model_create_new, path_bytes(config), path_bytes(tokenizer), path_bytes(out), seed)


def new_model_types() -> list[str]:
    """The model types that new_model() knows."""
    return _names(lib.clef_model_new_type)


def claim_folder(path: str | os.PathLike[str]) -> None:
    """Makes a folder for the files of a training, unless something else is there."""
    call(lib.clef_train_claim_folder, path_bytes(path))


def training_graph(graph: Graph, loss: str = "loss", **optimizer: Any) -> Graph:
    """The graph that a Trainer runs: loss, gradients, and the states that sum them up. Nothing is run."""
    out = ffi.new("clef_graph **")
    call(lib.clef_train_graph, graph._graph, c_text(loss), Optimizer(**optimizer).new_options(), out)
    return Graph._of(out[0], graph._owner)
