"""The interface of sentence_transformers.CrossEncoder."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .device import Device
from .model import Floats, Model


class CrossEncoder:
    """Rankings by the names that sentence-transformers has for them, for code that was written for it.

        c = clef.CrossEncoder("ms-marco-MiniLM-L6-v2")    # a local folder, a GGUF file, or a Model
        c.rank("what purrs?", ["a cat", "a dog"], return_documents=True)
    """

    def __init__(self, model: Model | str | os.PathLike[str], *, device: str | Device | None = None) -> None:
        self._model = model if isinstance(model, Model) else Model(model, device="auto" if device is None else device)

    def predict(self, sentences: Sequence[Any], batch_size: int = 32, show_progress_bar: bool | None = None,
                activation_fn: Any = None, convert_to_numpy: bool = True, convert_to_tensor: bool = False,
                **options: Any) -> Any:
        """A score for each pair of texts, float32 [n]; of one pair a number.

        batch_size, show_progress_bar  are not read
        activation_fn                  a function of a tensor of logits; None: what the model's files say
        convert_to_numpy, convert_to_tensor
                                       as there. Further options are refused, unless they are None
        """
        unknown = [name for name, value in options.items() if value is not None]
        if unknown:
            raise TypeError(f"predict: unknown options: {', '.join(unknown)}")
        one = len(sentences) == 2 and all(isinstance(text, str) for text in sentences)
        pairs = [(sentences[0], sentences[1])] if one else sentences
        scores: Floats = self._model.rank(pairs, raw=activation_fn is not None)
        if activation_fn is None and not convert_to_tensor:
            found: Any = scores if convert_to_numpy else list(scores)
            return found[0] if one else found
        import torch

        tensor = torch.from_numpy(scores)
        tensor = tensor if activation_fn is None else activation_fn(tensor)
        found = tensor if convert_to_tensor or not convert_to_numpy else tensor.numpy()
        return found[0] if one else found

    def rank(self, query: str, documents: Sequence[str], top_k: int | None = None, return_documents: bool = False,
             **options: Any) -> list[dict[str, Any]]:
        """[{"corpus_id", "score"}, ..], the best document first, also with its "text" if return_documents."""
        scores = np.asarray(self.predict([(query, document) for document in documents], **options))
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [{"corpus_id": int(i), "score": scores[i], **({"text": documents[i]} if return_documents else {})}
                for i in order]
