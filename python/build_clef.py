"""Makes the extension module clef_cl._clef of clef's headers, by cffi in API mode: the C compiler checks every
struct and function. The public headers are declared whole; nothing is written by hand but the callbacks.

CLEF_ROOT     the tree of clef (default: the folder above this one)
CLEF_LIBRARY  the folder with libclef.so (default: build/ in the tree)
CLEF_RPATH    where the module finds libclef.so.0 when it is loaded (default: the same folder; "": in the system's
              folders)
"""
import os
import re
import subprocess
import tempfile
from pathlib import Path

import cffi

HERE = Path(__file__).resolve().parent
ROOT = Path(os.environ.get("CLEF_ROOT", HERE.parent))
INCLUDE = ROOT / "include"

# What C calls back: each has its function in clef_cl/_native.py.
CALLBACKS = """
extern "Python" int clef_py_progress(void *, const char *, uint64_t, uint64_t);
extern "Python" void clef_py_notice(void *, const char *);
extern "Python" void clef_py_entry(void *, const char *, const char *);
extern "Python" clef_status clef_py_part(void *, const clef_reply_part *);
extern "Python" const void *clef_py_weight(void *, const char *, clef_dtype, uint64_t);
extern "Python" int clef_py_chooses(void *, const char *);
extern "Python" clef_status clef_py_values(void *, const char *, uint64_t, const float **, clef_error *);
extern "Python" void clef_py_distribution(void *, const char *, const double *, int32_t);
extern "Python" void clef_py_selftest_row(void *, const clef_selftest_row *);
extern "Python" void clef_py_cache_entry(void *, const clef_cache_entry *);
extern "Python" void clef_py_cache_aside(void *, const clef_cache_aside *);
"""
# Headers of C itself. cffi knows their types, FILE too.
EMPTY = ("stddef.h", "stdint.h", "stdio.h", "stdbool.h")


def declarations() -> str:
    """All of the public headers as cffi reads them: preprocessed, without attributes and bodies."""
    compiler = os.environ.get("CC", "cc").split()
    with tempfile.TemporaryDirectory() as folder:
        for name in EMPTY:
            Path(folder, name).write_text("")
        command = [*compiler, "-E", "-P", "-nostdinc", "-D__attribute__(x)=", f"-I{folder}", f"-I{INCLUDE}",
                   str(INCLUDE / "clef" / "clef.h")]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text = re.sub(r"static inline [^{;]*\{[^}]*\}", "", text)
    return text


def new_ffi() -> cffi.FFI:
    ffi = cffi.FFI()
    ffi.cdef(declarations() + CALLBACKS)
    library = Path(os.environ.get("CLEF_LIBRARY", ROOT / "build")).resolve()
    rpath = os.environ.get("CLEF_RPATH", str(library))
    ffi.set_source("clef_cl._clef", '#include "clef/clef.h"', include_dirs=[str(INCLUDE)], py_limited_api=True,
                   libraries=["clef"], library_dirs=[str(library)],
                   extra_link_args=[f"-Wl,-rpath,{rpath}"] if rpath else [])
    return ffi


ffibuilder = new_ffi()

if __name__ == "__main__":
    ffibuilder.compile(verbose=True, tmpdir=str(HERE))
