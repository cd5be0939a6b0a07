"""OpenCL devices."""
from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._native import call, ffi, lib, own_command, text_of, utf8

Progress = Callable[[str, int, int], Any]


@dataclass(frozen=True)
class DeviceInfo:
    """A device as `clef devices` lists it. `number` ("0:1") names it for Device() and Model(). `refused` says why
    clef cannot use it; it is empty for the others."""

    number: str
    name: str
    vendor: str
    platform: str
    version: str
    driver: str
    is_cpu: bool
    is_gpu: bool
    n_units: int
    global_bytes: int
    max_alloc_bytes: int
    refused: str


def _info_of(info: Any) -> DeviceInfo:
    caps = info.caps
    return DeviceInfo(f"{info.platform}:{info.index}", text_of(info.name), text_of(info.vendor),
                      text_of(info.platform_name), text_of(info.version), text_of(info.driver), bool(caps.is_cpu),
                      bool(caps.is_gpu), caps.n_units, caps.global_bytes, caps.max_alloc_bytes,
                      text_of(info.refused))


def devices() -> list[DeviceInfo]:
    """All OpenCL devices of this machine, in the loader's order; none is an empty list."""
    out, n = ffi.new("clef_device_info **"), ffi.new("int32_t *")
    call(lib.clef_devices_list, out, n)
    try:
        return [_info_of(out[0][i]) for i in range(n[0])]
    finally:
        lib.clef_devices_free(out[0])


def _say(text: str) -> None:
    print(f"clef: {text}", file=sys.stderr)


class Device:
    """An open device.

    which    "auto" (the best one), "P:D" (device D of platform P), a number, or a part of a name; several with commas
             between ("0:0,1:0") run a model's layers in turn
    threads  of a CPU device through PoCL; 0: the driver's choice. It counts for the first device of the process
    prover   the path of the command `clef`, which then checks kernels that this device never ran before, in child
             processes. None: $CLEF_PROVER, else the command of the wheel; without one no kernel is checked
    notice   called with one line about events that are no errors, such as a kernel that was set aside; None: they are
             written to stderr
    """

    def __init__(self, which: str = "auto", *, threads: int = 0, prover: str | None = None,
                 cache_dir: str | None = None, notice: Callable[[str], Any] | None = None) -> None:
        self._notice = ffi.new_handle(notice or _say)
        if prover is None and "CLEF_PROVER" not in os.environ and own_command.exists():
            prover = str(own_command)
        self._strings = [ffi.new("char[]", utf8(text)) if text is not None else ffi.NULL
                         for text in (prover, cache_dir)]
        options = ffi.new("clef_device_opts *", {"n_threads": threads, "several": 1, "prover": self._strings[0],
                                                 "cache_dir": self._strings[1], "pin": lib.CLEF_PIN_AUTO,
                                                 "notice": lib.clef_py_notice, "notice_user": self._notice})
        out = ffi.new("clef_device **")
        call(lib.clef_device_open, utf8(which), options, out)
        self._device = out[0]
        self._lock = threading.RLock()  # calls that share a device must not overlap
        self._users: list[Any] = []  # what closes the models and plans on it
        # A callback may come while the device is closed: its handle lives as long.
        self._finalizer = weakref.finalize(self, _close, self._device, self._notice)

    @property
    def info(self) -> DeviceInfo:
        """What the device is; of several, the first one."""
        return _info_of(lib.clef_device_describe(self._pointer))

    @property
    def _pointer(self) -> Any:
        if not self._finalizer.alive:
            raise ValueError("the device was closed")
        return self._device

    def _register(self, closer: Any) -> None:
        """Notes what is to be closed before the device: a weakref.finalize."""
        self._users = [user for user in self._users if user.alive]
        self._users.append(closer)

    def close(self) -> None:
        """Closes the device with the models and plans on it, and stores the programs that were built."""
        with self._lock:
            while self._users:
                self._users.pop()()
            self._finalizer()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<clef.Device {self.info.number} {self.info.name}>" if self._finalizer.alive else "<clef.Device closed>"


def _close(device: Any, notice: Any) -> None:
    lib.clef_device_close(device)
    del notice
