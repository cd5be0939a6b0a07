"""Several processes that run one model together, each with a part of its weights."""
from __future__ import annotations

import sys
import traceback
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

from ._arrays import whole
from ._native import (ArgumentError, ClosedError, DeviceError, Error, c_text, call, ffi, fields_of, lib, new_struct,
                      raise_error, text_of)
from .device import Device

_wires = ("f32", "f16", "q8")
_sizes = tuple(4**i for i in range(4, 12))  # 256 bytes to 4 MiB


def ranks_started() -> int:
    """How many ranks the launcher (`mpirun -n 4 python ..`) has started; 1 without a launcher."""
    return int(lib.clef_ranks_started())


class _Joined:
    """What a rank needs to leave the others."""

    def __init__(self, pointer: Any, rank: int) -> None:
        self.pointer, self.rank = pointer, rank
        self.has_begun = pointer is None  # the ranks know of each other whether they have a device
        self.device: Device | None = None  # that rank 0 leads

    def agree(self, failure: Exception | None) -> None:
        """Raises on every rank what failed on one of them."""
        if self.has_begun:
            if failure is not None:
                raise failure
            return
        self.has_begun = True
        error = ffi.new("clef_error *")
        if failure is not None:
            error.status = getattr(lib, f"CLEF_{getattr(failure, 'status', 'E_ARG')}", lib.CLEF_E_ARG)
            error.text = str(failure).encode("utf-8", "replace")[:1000]
        status = lib.clef_ranks_agree(self.pointer, error.status, error)
        if failure is not None:
            raise failure
        if status != lib.CLEF_OK:
            raise_error(error)


def _leave(joined: _Joined) -> None:
    if joined.device is not None:
        joined.device.close()  # with the plans on it, of which the others have their parts
    if joined.pointer is None:
        return
    try:  # the others may wait for this rank in follow() or lead()
        joined.agree(None if joined.rank == 0 else ArgumentError("it left without follow()"))
    except Error:
        pass
    lib.clef_ranks_close(joined.pointer)


class Ranks:
    """The processes that an MPI launcher started (`mpirun -n 4 python script.py`). All run the same script. Rank 0 uses
    models as one process would; the others follow it.

        with clef.Ranks() as ranks:
            if ranks.rank:
                ranks.follow()                          # returns when rank 0 leaves the block
            else:
                m = clef.Model("model.gguf", ranks=ranks)
                print(m.generate("Once upon a time", max_tokens=50))

    width   ranks that share each layer (tensor parallelism). None: those of a machine, or what `stages` leaves
    stages  groups of ranks that have layers of their own (pipeline parallelism). None: what `width` leaves
    wire    how sums cross between ranks: "f32", "f16" with half the bytes, or "q8" with about a quarter
    agree   a text that has to be the same on all ranks, such as the options of the script

    Every rank makes one such object. The module libclef_mpi.so has to be installed, or $CLEF_MPI names it. The model's
    files have to be on each machine under the same path. Without a launcher there is one rank, and no MPI is needed.

    An exception that leaves the `with` block is written to stderr and ends all ranks, since they may wait for each
    other. SystemExit only leaves the block.
    """

    def __init__(self, width: int | None = None, stages: int | None = None, wire: str = "f32", *,
                 agree: str | None = None) -> None:
        wanted = [whole(name, n, 1) if n is not None else 0 for name, n in (("width", width), ("stages", stages))]
        if wire not in _wires:
            raise ValueError(f"wire: expected one of {', '.join(_wires)}, got {wire!r}")
        if ranks_started() == 1 and max(wanted) > 1:
            raise ArgumentError("width, stages: expected several ranks (mpirun -n N), got one process")
        self._info: dict[str, Any] = {"rank": 0, "n": 1, "local_rank": 0, "n_local": 1, "node": 0, "n_nodes": 1,
                                      "width": 1, "stages": 1}
        self._hosts = ["localhost"]
        pointer = None
        if ranks_started() > 1:
            texts = [ffi.new("char[]", c_text(text)) if text is not None else ffi.NULL for text in (wire, agree)]
            options = new_struct("clef_ranks_opts *", {"width": wanted[0], "stages": wanted[1], "wire": texts[0],
                                                       "agree": texts[1]})
            out, info = ffi.new("clef_ranks **"), ffi.new("clef_ranks_info *")
            call(lib.clef_ranks_open, options, out)
            pointer = out[0]
            lib.clef_ranks_describe(pointer, info)
            self._info = fields_of(info[0])
            self._hosts = [text_of(lib.clef_ranks_host(pointer, i)) for i in range(self.n)]
        self._joined = _Joined(pointer, self.rank)
        self._disagreed = False  # all ranks have the error
        self._named = ""  # the device that rank 0 leads, as it was asked for
        self._finalizer = weakref.finalize(self, _leave, self._joined)

    # ---- who is there --------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """The number of this process, from 0 on."""
        return int(self._info["rank"])

    @property
    def n(self) -> int:
        """How many ranks there are."""
        return int(self._info["n"])

    @property
    def local_rank(self) -> int:
        """The number of this process among those of its machine."""
        return int(self._info["local_rank"])

    @property
    def node(self) -> int:
        """The number of this process's machine."""
        return int(self._info["node"])

    @property
    def hosts(self) -> list[str]:
        """The machine of each rank, by name."""
        return list(self._hosts)

    @property
    def width(self) -> int:
        """How many ranks share each layer: rank r is number r % width of stage r // width."""
        return int(self._info["width"])

    @property
    def stages(self) -> int:
        """How many groups of ranks have layers of their own."""
        return int(self._info["stages"])

    @property
    def _pointer(self) -> Any:
        if not self._finalizer.alive:
            raise ClosedError("the ranks were closed")
        return self._joined.pointer

    def __repr__(self) -> str:
        return f"<clef.Ranks rank {self.rank} of {self.n}: {self.stages} stages of {self.width}>"

    # ---- working together ----------------------------------------------------------------------------------

    def device(self, which: str = "auto", **options: Any) -> Device:
        """Opens the device of this rank. which: as Device() has it; of a list with commas ("0:0,0:1") the one with
        this rank's number on its machine. The ranks of a machine divide the processors of a CPU device among them."""
        self._pointer
        names = which.split(",")
        n_local = int(self._info["n_local"])
        if n_local > 1:
            options.setdefault("threads", self._info["n_processors"])
        device = Device(names[self.local_rank % len(names)], **options)
        info = device.info
        if not info.is_cpu and n_local > 1 and (which == "auto" or len(names) < n_local):
            device.close()
            raise DeviceError(f"{info.name}: {n_local} ranks of {self._hosts[self.rank]} would share it; expected a "
                              "device for each rank of a machine, \"A,B\", or one named several times")
        return device

    def _opened(self, device: str | Device) -> Device:
        """The device, if every rank has one."""
        failure = opened = None
        try:
            opened = self.device(device) if isinstance(device, str) else device
        except Exception as error:
            failure = error
        try:
            self._joined.agree(failure)
        except Exception:
            self._disagreed = True
            if opened is not None and isinstance(device, str):
                opened.close()
            raise
        assert opened is not None
        return opened

    def lead(self, device: str | Device = "auto") -> Device:
        """On rank 0: opens a device, or takes an open one. Plans that are made on it from now on run on all ranks, and
        close() closes it. Model(.., ranks=ranks) calls this. Further calls return the same device."""
        self._pointer
        if self.rank:
            raise ArgumentError(f"rank {self.rank} cannot lead: rank 0 does, and the others call follow()")
        led = self._joined.device
        if led is not None and led._finalizer.alive:
            if device in ("auto", self._named) or device is led:
                return led
            raise ArgumentError(f"lead: expected the device that the ranks have ({led.info.number}), got another")
        led = self._opened(device)
        if self.n > 1:
            call(lib.clef_ranks_lead, self._pointer, led._pointer)
            led._ranks = self
        self._joined.device, self._named = led, device if isinstance(device, str) else ""
        return led

    def follow(self, device: str | Device = "auto") -> None:
        """On the other ranks: computes this rank's part of what rank 0 does, and returns when rank 0 closes. device: as
        in device(). A failure in a run ends all ranks."""
        self._pointer
        if self.rank == 0:
            raise ArgumentError("rank 0 cannot follow: it leads, as Model(.., ranks=ranks) does")
        if self._joined.has_begun:
            raise ArgumentError("follow: expected one call, got a second one")
        opened = self._opened(device)
        try:
            with opened._lock:
                call(lib.clef_ranks_follow, self._pointer, opened._pointer, lib.clef_model_open_for_rank,
                     ffi.NULL)
        finally:
            if isinstance(device, str):
                opened.close()

    def sent(self) -> list[int]:
        """On rank 0: the bytes that each rank has sent to others so far, for values and for commands."""
        out = ffi.new("uint64_t[]", self.n)
        call(lib.clef_ranks_sent, self._pointer, out)
        return list(out)

    def measure(self, sizes: Sequence[int] = _sizes) -> list[dict[str, Any]]:
        """Measures exchanges of so many bytes. Every rank calls this, before lead() and follow(), and gets the same
        figures: a dict for each size, with "n_bytes" and the seconds of each exchange, {"least", "median"}."""
        pointer = self._pointer
        if self.n == 1 or self._joined.has_begun:
            raise ArgumentError("measure: expected several ranks, before lead() and follow()")
        n_bytes = [whole("sizes", size, 4) for size in sizes]
        out = ffi.new("clef_ranks_times[]", max(len(n_bytes), 1))
        call(lib.clef_ranks_measure, pointer, n_bytes, len(n_bytes), out)
        return [{"n_bytes": n,
                 **{f"all_reduce {wire}": fields_of(times.all_reduce[i]) for i, wire in enumerate(_wires)},
                 **{name: fields_of(getattr(times, name)) for name in ("all_gather", "broadcast", "send")}}
                for n, times in zip(n_bytes, out)]

    # ---- leaving -------------------------------------------------------------------------------------------

    def abort(self, message: str) -> NoReturn:
        """Ends all ranks at once, after a message on stderr."""
        pointer = self._pointer
        if pointer is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            lib.clef_ranks_abort(pointer, c_text(message))
        raise SystemExit(message)

    def close(self) -> None:
        """Leaves the others. On rank 0 this closes the device that it leads, with the models on it, and lets the others
        return from follow()."""
        self._finalizer()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, kind: Any, exception: BaseException | None, trace: Any) -> None:
        leaves = exception is None or isinstance(exception, (SystemExit, GeneratorExit))
        if not leaves and not self._disagreed and self.n > 1 and self._finalizer.alive:
            traceback.print_exception(kind, exception, trace)
            self.abort("")
        self.close()
