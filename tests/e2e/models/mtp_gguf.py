"""Writes a folder of mtp.py as GGUF by llama.cpp's converter: mtp_gguf.py CONVERTER FOLDER FILE.gguf (no tokenizer). needs: torch transformers"""
import logging
import os
import sys
from pathlib import Path

import torch

converter, folder, path = sys.argv[1:]
vendor = os.path.dirname(os.path.abspath(converter))
sys.path[:0] = [vendor, vendor + "/gguf-py"]
import conversion  # noqa: E402
import gguf  # noqa: E402
from conversion import base  # noqa: E402

logging.disable(logging.WARNING)
keys = base.ModelBase.load_hparams(Path(folder), False)
cls = conversion.get_model_class(keys["architectures"][0])
cls.set_vocab = lambda self: self._set_vocab_none()
with torch.inference_mode():
    cls(Path(folder), gguf.LlamaFileType.ALL_F32, Path(path), use_temp_file=False, eager=True, hparams=keys).write()
