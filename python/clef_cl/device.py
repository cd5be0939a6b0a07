"""OpenCL devices."""
from __future__ import annotations

import os
import shutil
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._native import ClosedError, c_text, call, ffi, fields_of, lib, new_struct, own_command, path_bytes, text_of

Progress = Callable[[str, int, int], Any]


@dataclass(frozen=True)
class DeviceInfo:
    """A device as `clef devices` lists it. `number` ("0:1") names it for Device() and Model(). `refused` says why
    clef cannot use it, `chosen` why it is taken where none is named; they are empty for the others. `caps` has
    the fields of clef_caps."""

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
    chosen: str
    caps: dict[str, int]


def _info_of(info: Any) -> DeviceInfo:
    caps = info.caps
    return DeviceInfo(f"{info.platform}:{info.index}", text_of(info.name), text_of(info.vendor),
                      text_of(info.platform_name), text_of(info.version), text_of(info.driver), bool(caps.is_cpu),
                      bool(caps.is_gpu), caps.n_units, caps.global_bytes, caps.max_alloc_bytes,
                      text_of(info.refused), text_of(info.chosen), fields_of(caps))


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


class DeviceLock:
    """The lock of a device: its calls must not overlap. What is to be closed while one of them runs, as when the
    garbage collector finds a model during a callback, is closed when the last one has ended."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._late: list[Callable[[], Any]] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *exception: object) -> None:
        self._depth -= 1
        try:
            if self._late:
                self._close_late()
        finally:
            self._lock.release()

    def close(self, closer: Callable[[], Any]) -> None:
        """Calls closer() now, or at the end of the call that uses the device."""
        if not self._lock.acquire(blocking=False):
            self._late.append(closer)  # whoever has the lock closes it
            if self._lock.acquire(blocking=False):  # unless that call has just ended
                try:
                    self._close_late()
                finally:
                    self._lock.release()
            return
        try:
            self._late.append(closer)
            self._close_late()
        finally:
            self._lock.release()

    def _close_late(self) -> None:
        while self._depth == 0 and self._late:
            self._late.pop(0)()


class Device:
    """An open device.

    which     "auto" (the best one), "P:D" (device D of platform P), a number, or a part of a name; several with commas
              between ("0:0,1:0") run a model's layers in turn
    profile   the device measures the time of each launch: Model.profile() and Plan.profile() need it
    threads   how many threads a CPU device of PoCL computes with; 0: the driver chooses. PoCL reads it once, so that
              only the first device that a process opens can set it
    shares    of several devices: each one's share of the layers. None: by their measured speed
    experts_on  a second device, named like `which`, that has the experts of mixtures; None: they are on `which`, too
    prover    the path of the command `clef`, which then checks kernels that this device never ran before, in child
              processes. None: $CLEF_PROVER, else the command of the wheel; without one no kernel is checked
    cache_dir the folder for built programs; "": none; None: clef.cache.folder()
    notice    called with one line about events that are not errors, such as a kernel that was set aside; None: they are
              written to stderr
    background  False: nothing is built in the background. Use it for measurements
    """

    def __init__(self, which: str | int = "auto", *, profile: bool = False, threads: int = 0,
                 shares: list[float] | None = None, prover: str | None = None, cache_dir: str | None = None,
                 notice: Callable[[str], Any] | None = None, progress: Progress | None = None,
                 background: bool = True, experts_on: str | int | None = None) -> None:
        if threads < 0:
            raise ValueError(f"threads: expected a number from 0, got {threads}")
        self._notice = ffi.new_handle(notice or _say)
        self._progress = ffi.new_handle(progress)
        if prover is None and "CLEF_PROVER" not in os.environ:
            prover = str(own_command) if own_command.exists() else shutil.which("clef")
        self._strings = [ffi.new("char[]", path_bytes(text)) if text is not None else ffi.NULL
                         for text in (prover, cache_dir, None if experts_on is None else str(experts_on))]
        self._shares = ffi.new("float[]", shares or [])
        options = new_struct("clef_device_opts *", {
            "profile": int(profile), "n_threads": threads, "several": 1, "prover": self._strings[0],
            "cache_dir": self._strings[1], "pin": lib.CLEF_PIN_AUTO, "notice": lib.clef_py_notice,
            "notice_user": self._notice, "progress": lib.clef_py_progress, "progress_user": self._progress,
            "no_background": int(not background), "shares": self._shares if shares else ffi.NULL,
            "n_shares": len(shares or ()), "experts_on": self._strings[2]})
        out = ffi.new("clef_device **")
        call(lib.clef_device_open, c_text(str(which)), options, out)
        self._device = out[0]
        self._lock = DeviceLock()
        self._users: list[Any] = []  # what closes the models and plans on it
        self._ranks: Any = None  # the Ranks that run its plans
        # A callback may come while the device is closed: its handles live as long.
        self._finalizer = weakref.finalize(self, _close, self._device, (self._notice, self._progress, self._strings),
                                           self._lock)

    @property
    def info(self) -> DeviceInfo:
        """What the device is; of several, the first one."""
        return _info_of(lib.clef_device_describe(self._pointer))

    @property
    def parts(self) -> list[DeviceInfo]:
        """The devices that were opened as one; a single device is its own part."""
        found: list[DeviceInfo] = []
        while (part := lib.clef_device_part(self._pointer, len(found))) != ffi.NULL:
            found.append(_info_of(lib.clef_device_describe(part)))
        return found

    @property
    def n_plans(self) -> int:
        """How many plans exist on it: each model's session, embedder or batch has one or more."""
        return int(lib.clef_device_n_plans(self._pointer))

    def measure(self, *, known: bool = False) -> dict[str, float]:
        """The device's speed, by the names of clef_device_speed: "read_gb_s", "mad_gflop_s", "launch_us" .. It is
        measured in a few seconds. known=True: the last result that the cache has, else NotFound."""
        out = ffi.new("clef_device_speed *")
        with self._lock:
            call(lib.clef_device_speed_known if known else lib.clef_device_measure, self._pointer, out)
        return fields_of(out[0])

    def reopen(self) -> None:
        """Gives the device a new OpenCL context. No plan may exist on it. Models do this by themselves when their
        device is lost."""
        with self._lock:
            call(lib.clef_device_reopen, self._pointer)

    @property
    def _pointer(self) -> Any:
        if not self._finalizer.alive:
            raise ClosedError("the device was closed")
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


def _close(device: Any, keep: Any, lock: DeviceLock) -> None:
    def close() -> None:
        lib.clef_device_close(device)
        keep  # noqa: B018  the handles are needed until here

    lock.close(close)
