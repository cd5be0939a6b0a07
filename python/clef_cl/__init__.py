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

Model, Graph and Device have the documentation of what they do. Errors are subclasses of clef_cl.Error.
"""
from ._native import (ArgumentError, BuildError, Cancelled, DeviceError, Error, FormatError, IOFailed, LimitError,
                      MemoryFailed, NotFound, OpenCLError, ShapeError, Unsupported, lib as _lib, text_of as _text_of)
from ._openai import openai
from ._pages import Attention, History, Profile
from .batch import Batch, Token
from .dataset import Dataset
from .device import Device, DeviceInfo, devices
from .generation import Generation
from .graph import Graph, Plan, Symbol, Value, decode, encode, ops, passes, sym
from .model import Model, architectures, quantize_types
from .sampling import Sampling
from .tokenizer import Tokenizer
from .train import (ModelTrainer, Optimizer, Trainer, claim_folder, has_checkpoint, new_model, new_model_types, train,
                    training_graph)

__version__ = _text_of(_lib.clef_version())


def from_pretrained(folder: str, **options: object) -> Model:
    """Model(folder, ..), by the name that transformers has for it. The folder is a local one; nothing is fetched."""
    return Model(folder, **options)  # type: ignore[arg-type]


__all__ = ["ArgumentError", "Batch", "BuildError", "Cancelled", "Device", "DeviceError", "DeviceInfo", "Error", "FormatError",
           "Generation", "Graph", "IOFailed", "LimitError", "MemoryFailed", "Model", "NotFound", "OpenCLError",
           "Plan", "Sampling", "ShapeError", "Symbol", "Token", "Unsupported", "Value", "devices", "from_pretrained", "openai", "sym"]
