"""Runs the example at the head of docs/python.md with an installed wheel, on the bundled model.
usage: python wheel_example.py docs/python.md (tools/wheel runs it)"""
import re
import sys
from pathlib import Path

import numpy as np

import clef_cl as clef

code = re.search(r"```python\n(.*?)```", Path(sys.argv[1]).read_text(), re.S).group(1)
assert 'clef.Model("model.gguf")' in code, "docs/python.md: expected an example that opens model.gguf"
print(code.replace('clef.Model("model.gguf")', "clef.Model()"))
names = {}
exec(code.replace('clef.Model("model.gguf")', "clef.Model()"), names)
print()
assert "site-packages" in clef.__file__ or "dist-packages" in clef.__file__, f"{clef.__file__} is not installed"
assert names["ids"].dtype == np.int32 and len(names["ids"]) > 0, names["ids"]
logits = names["logits"]
assert logits.dtype == np.float32 and logits.ndim == 1 and np.isfinite(logits).all(), logits
text = names["m"].generate("ROMEO:", max_tokens=5, temperature=0)
print("greedy:", repr(text))
print("ok", clef.__file__)
