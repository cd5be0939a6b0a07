"""clef: transformers on any OpenCL device.

    import clef_cl as clef

    m = clef.Model("model.gguf")                     # or a Hugging Face folder
    print(m.generate("Once upon a time", max_tokens=50))
    for piece in m.generate("Once upon a time", stream=True):
        print(piece, end="", flush=True)
    m.logits(m.tokenize("Hello"))                    # NumPy, float32 [n_vocab]
    m.embed(["a text", "another"])                   # float32 [2, d]

    g = clef.Graph()                                 # a graph of your own
    x = g.input("x", (clef.sym("T"), 64))
    g.output("y", g.softmax(x @ w))
    g.run("auto", x=array)["y"]

    clef.train(m, ["plays.txt"], lora_rank=8, out="adapter")

Models      Model, Batch, Sampling, from_pretrained
Interfaces  openai(m), SentenceTransformer, CrossEncoder, langchain
Graphs      Graph, Value, Plan, sym
Training    train, Trainer, ModelTrainer, Dataset, Optimizer
Parts       Tokenizer, Template, Constraint, Sampler, Adapter, files
Devices     devices, Device, check, cache
Ranks       Ranks, ranks_started

Errors are subclasses of clef_cl.Error. docs/python.md is the guide.
"""
from __future__ import annotations

import os as _os
from typing import Any as _Any

from . import cache, check, files
from ._native import (ArgumentError, BuildError, Cancelled, ClosedError, DeviceError, Error, FormatError, IOFailed,
                      LimitError, MemoryFailed, NotFinite, NotFound, OpenCLError, ShapeError, Unsupported, lib as _lib,
                      text_of as _text_of)
from ._openai import openai
from ._pages import Attention, History, Profile
from .adapter import Adapter, save_adapter
from .batch import Batch, Token
from .constraint import Constraint
from .conversation import Template, template_names, tool_formats
from .dataset import Dataset
from .device import Device, DeviceInfo, devices
from .generation import Generation
from .graph import Graph, Plan, Symbol, Value, decode, encode, ops, passes, sym
from .model import Model, Shape, architectures, quantize_types
from .ranks import Ranks, ranks_started
from .sampling import Sampler, Sampling, sampler_names
from .cross_encoder import CrossEncoder
from .speech import Segment, Transcript, Word
from .sentence import SentenceTransformer, quantize_embeddings
from .tokenizer import Tokenizer
from .train import (ModelTrainer, Optimizer, Trainer, claim_folder, has_checkpoint, new_model, new_model_types, train,
                    training_graph)

__version__ = _text_of(_lib.clef_version())


def from_pretrained(folder: str | _os.PathLike[str], **options: _Any) -> Model:
    """Model(folder, ..), by the name that transformers has for it. The folder is a local one; nothing is fetched."""
    if not _os.path.exists(folder):
        raise FileNotFoundError(f"from_pretrained: expected a local folder or GGUF file, got {_os.fspath(folder)!r}, "
                                "which does not exist; clef fetches nothing")
    return Model(folder, **options)


def __getattr__(name: str) -> _Any:
    if name == "langchain":  # it imports langchain-core, which takes a second
        import importlib

        return importlib.import_module(f"{__name__}.langchain")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Adapter", "ArgumentError", "Attention", "Batch", "BuildError", "Cancelled", "ClosedError", "Constraint",
    "CrossEncoder",
    "Dataset", "Device", "DeviceError", "DeviceInfo", "Error", "FormatError", "Generation", "Graph", "History",
    "IOFailed", "LimitError", "MemoryFailed", "Model", "ModelTrainer", "NotFinite", "NotFound", "OpenCLError", "Optimizer",
    "Plan", "Profile", "Ranks", "Sampler", "Sampling", "Segment", "SentenceTransformer", "Shape", "ShapeError", "Symbol",
    "Template", "Token", "Tokenizer", "Trainer", "Transcript", "Unsupported", "Value", "Word", "architectures", "cache", "check",
    "claim_folder", "decode", "devices", "encode", "files", "from_pretrained", "has_checkpoint", "new_model",
    "new_model_types", "openai", "ops", "passes", "quantize_embeddings", "quantize_types", "ranks_started", "sampler_names", "save_adapter",
    "sym", "template_names", "tool_formats", "train", "training_graph"]
