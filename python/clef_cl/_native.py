"""The C library, its errors as exceptions, and the functions that it calls back."""
from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from ._clef import ffi, lib

# The command that a wheel brings: it checks kernels (Device's `prover`).
own_command = Path(__file__).parent / "_install" / "bin" / "clef"

__all__ = ["ClosedError", "Error", "c_text", "call", "ffi", "fields_of", "lib", "new_struct", "path_bytes", "text_of",
           "utf8"]


class Error(Exception):
    """A call of the library failed. `status` is its name ("E_IO"); `cl_code` the code of OpenCL, or 0; `is_lost` says
    whether the device was lost, or had no resources for a while. There is a subclass for each status, so that
    `except clef.IOFailed` catches files that cannot be read."""

    status = "E_UNKNOWN"
    cl_code = 0
    is_lost = False


class ArgumentError(Error, ValueError):
    """An argument is out of range, or not allowed here."""


class ClosedError(ArgumentError):
    """What is used was closed, or what it belongs to was: a model, a device, a batch .."""

    status = "E_ARG"


class MemoryFailed(Error, MemoryError):
    """There is no more host memory."""


class IOFailed(Error, OSError):
    """A file cannot be read or written."""


class FormatError(Error, ValueError):
    """A file or text is malformed."""


class Unsupported(Error):
    """Valid, but not supported here."""


class ShapeError(Error, ValueError):
    """Shapes or dtypes do not fit."""


class NotFound(Error, LookupError):
    """There is no such weight, label or head."""


class LimitError(Error, ValueError):
    """Beyond a limit of the model or the device."""


class DeviceError(Error):
    """There is no usable OpenCL device."""


class BuildError(Error):
    """An OpenCL program does not build."""


class OpenCLError(Error):
    """An OpenCL call failed."""


class Cancelled(Error):
    """The caller interrupted the call."""


class NotFinite(Error):
    """A result is not a finite number."""


_of_status = {"E_ARG": ArgumentError, "E_NOMEM": MemoryFailed, "E_IO": IOFailed, "E_FORMAT": FormatError,
              "E_UNSUPPORTED": Unsupported, "E_SHAPE": ShapeError, "E_NOT_FOUND": NotFound, "E_LIMIT": LimitError,
              "E_DEVICE": DeviceError, "E_BUILD": BuildError, "E_CL": OpenCLError, "E_CANCELLED": Cancelled,
              "E_NOT_FINITE": NotFinite}


def text_of(text: Any) -> str:
    """A C string as str; "" for NULL."""
    return str(ffi.string(text).decode("utf-8", "replace")) if text else ""


def utf8(text: str | bytes) -> bytes:
    """Text as bytes of UTF-8. Lone surrogates, as paths may have them, keep their bytes."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"expected a text (str), got {type(text).__name__}")
    return text.encode("utf-8", "surrogateescape")


def c_text(text: str | bytes) -> bytes:
    """Text for C, which takes it to end at the first zero byte: there must be none."""
    data = utf8(text)
    if b"\0" in data:
        raise ValueError(f"expected a text without zero bytes, got {text!r}")
    return data


def path_bytes(path: str | os.PathLike[str]) -> bytes:
    """A path for C."""
    return c_text(os.fspath(path))


def _plain(value: Any) -> Any:
    """A scalar of NumPy as Python's own number, of which C cuts nothing off."""
    return value.item() if isinstance(value, np.generic) else value


def new_struct(kind: str, fields: Mapping[str, Any]) -> Any:
    """A struct of C. A field that does not fit is named."""
    given = {name: _plain(value) for name, value in fields.items()}
    try:
        return ffi.new(kind, given)
    except (TypeError, OverflowError):
        for name, value in given.items():
            try:
                ffi.new(kind, {name: value})
            except (TypeError, OverflowError) as error:
                raise type(error)(f"{name}: {error}, got {value!r}") from None
        raise


# ---- calls -------------------------------------------------------------------------------------------------

_raised = threading.local()  # what a callback of this thread raised


def call(function: Callable[..., int], *arguments: Any) -> None:
    """Calls a function whose last parameter is a clef_error, and raises what it reports. What a callback raised
    meanwhile is raised here; KeyboardInterrupt, too."""
    error = ffi.new("clef_error *")
    _raised.exception = None
    status = function(*arguments, error)
    if status != lib.CLEF_OK or _raised.exception is not None:
        raise_error(error)


def raise_error(error: Any) -> None:
    """Raises what a callback of this thread raised, else what a clef_error describes."""
    exception = getattr(_raised, "exception", None)
    _raised.exception = None
    if exception is not None:
        raise exception
    status = error.status
    name = text_of(lib.clef_status_name(status))
    new = _of_status.get(name, Error)(text_of(error.text) or text_of(lib.clef_status_text(status)))
    new.status, new.cl_code, new.is_lost = name, error.cl_code, bool(lib.clef_error_is_lost(error))
    raise new


def fields_of(struct: Any) -> dict[str, Any]:
    """The numbers and texts of a C struct, by name."""
    found: dict[str, Any] = {}
    for name, field in ffi.typeof(struct).fields:
        kind = field.type
        if kind.kind in ("primitive", "enum"):
            found[name] = getattr(struct, name)
        elif kind.cname.startswith("char[") or kind.cname == "char *":
            found[name] = text_of(getattr(struct, name))
    return found


# ---- callbacks ---------------------------------------------------------------------------------------------

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _called_by_c(**options: Any) -> Callable[[_Function], _Function]:
    """ffi.def_extern() with a type."""
    return cast("Callable[[_Function], _Function]", ffi.def_extern(**options))


def _keep(kind: Any, exception: BaseException, traceback: Any) -> Any:
    """Keeps what a callback raised for call(), and lets C go on to its end."""
    if getattr(_raised, "exception", None) is None:
        _raised.exception = exception
    return None


@_called_by_c(onerror=_keep, error=1)
def clef_py_progress(user: Any, what: Any, done: int, total: int) -> int:
    report = ffi.from_handle(user) if user else None
    if report is not None and report(text_of(what), done, total):
        return 1
    return 0


@_called_by_c(onerror=_keep)
def clef_py_notice(user: Any, text: Any) -> None:
    ffi.from_handle(user)(text_of(text))


@_called_by_c(onerror=_keep)
def clef_py_entry(user: Any, key: Any, value: Any) -> None:
    ffi.from_handle(user)[text_of(key)] = text_of(value)


@_called_by_c(onerror=_keep, error=ffi.NULL)
def clef_py_weight(user: Any, name: Any, dtype: Any, n_bytes: int) -> Any:
    return ffi.from_handle(user).find(text_of(name), n_bytes)


@_called_by_c(onerror=_keep, error=0)
def clef_py_chooses(user: Any, name: Any) -> int:
    return int(bool(ffi.from_handle(user)(text_of(name))))


@_called_by_c(onerror=_keep, error=lib.CLEF_E_CANCELLED)
def clef_py_values(user: Any, name: Any, n: int, out: Any, error: Any) -> int:
    out[0] = ffi.from_handle(user)(text_of(name), n)
    return int(lib.CLEF_OK)


@_called_by_c(onerror=_keep)
def clef_py_distribution(user: Any, name: Any, p: Any, n_vocab: int) -> None:
    ffi.from_handle(user)(text_of(name), ffi.buffer(p, 8 * n_vocab)[:])


@_called_by_c(onerror=_keep)
def clef_py_selftest_row(user: Any, row: Any) -> None:
    ffi.from_handle(user)(row)


@_called_by_c(onerror=_keep)
def clef_py_cache_entry(user: Any, entry: Any) -> None:
    ffi.from_handle(user).entry(entry)


@_called_by_c(onerror=_keep)
def clef_py_cache_aside(user: Any, aside: Any) -> None:
    ffi.from_handle(user).aside(aside)


@_called_by_c(onerror=_keep, error=lib.CLEF_E_CANCELLED)
def clef_py_part(user: Any, part: Any) -> int:
    ffi.from_handle(user).append(part)
    return int(lib.CLEF_OK)
