"""The process that holds a page's GPU device; a driver that crashes ends this process alone."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from nnjit_studio.engine.gpu_bridge import wire as gpu_wire
from nnjit_studio.engine.gpu_bridge.wire import COMPILER_THREAD, GpuFault
from nnjit_studio.engine.messages.frames import MAX_FRAME_BYTES, Blob, decode_frame, encode_frame
from nnjit_studio.errors import PageError
from nnjit_studio.support.processes import usable_cores

if TYPE_CHECKING:
    from nnjit_studio.engine.gpu_bridge.device import GpuDevice

LENGTH = struct.Struct("<I")
"""Stands before each frame between hub and process."""

COMPILE_THREADS = min(4, usable_cores())

Reply = tuple[dict[str, Any], list[Blob]]
Work = Callable[["GpuDevice", dict[str, Any]], Reply]


def serve(link: socket.socket, chatter: str, adapter: str) -> None:
    """Answer frames until the hub hangs up.

    Parameters
    ----------
    chatter
        File for all that drivers write to stdout and stderr.
    adapter
        ``hardware`` or ``software``.
    """
    _write_chatter_to(chatter)
    _end_with_parent(chatter)
    sending = threading.Lock()

    def send(header: dict[str, Any], blobs: Sequence[Blob] = ()) -> None:
        frame = encode_frame(header, blobs)
        with sending:
            link.sendall(LENGTH.pack(len(frame)))
            link.sendall(frame)

    session = _Session(adapter, send)
    try:
        while not session.lost and (data := _receive(link)) is not None:
            session.answer(data)
        if session.lost:
            send({"type": "ended", "reason": session.lost})
        else:
            _remove(chatter)  # the hub hung up, or was killed: nobody wants to read it
    except PageError as error:  # after a malformed frame nothing can be trusted
        send({"type": "ended", "reason": error.error})
    except ConnectionError:
        pass
    # Drivers have threads of their own, and nothing here is worth a tidy end.
    sys.stderr.flush()
    os._exit(0)


class _Session:
    """One page's requests, in order; pipelines are compiled at the same time."""

    def __init__(self, adapter: str, send: Callable[..., None]) -> None:
        self._kind = adapter
        self._send = send
        self._device: GpuDevice | None = None
        self._compilers = ThreadPoolExecutor(COMPILE_THREADS, COMPILER_THREAD)
        self._works: dict[str, Work] = {"read": _read, "stamps": _stamps, "done": _done}

    @property
    def lost(self) -> str:
        return self._device.lost if self._device is not None else ""

    def answer(self, data: Blob) -> None:
        """Do what a frame asks; a batch of commands has no reply.

        Raises
        ------
        PageError
            When the frame is malformed or asks for nothing that is known.
        """
        header, blobs = decode_frame(data)
        kind = header["type"]
        if kind == "run":
            if not blobs:
                raise PageError("A batch of GPU commands has no commands.")
            self._opened().run(gpu_wire.unpack(bytes(blobs[0])), blobs[1:])
        elif kind == "lose":
            os._exit(1)  # as a driver may
        elif type(header.get("id")) is not int:
            raise PageError(f"A GPU request {kind!r} has no id.")
        elif kind in ("adapters", "open"):
            self._reply(header, self._adapters if kind == "adapters" else self._open)
        elif kind == "compile":
            work = _compilation(self._opened(), header, blobs)
            self._compilers.submit(self._reply_or_end, header, work)
        elif kind in self._works:
            device = self._opened()
            self._reply(header, lambda: _settled(device, self._works[kind], header))
        else:
            raise PageError(f"There is no GPU request {kind!r}.")

    def _reply(self, header: dict[str, Any], work: Callable[[], Reply]) -> None:
        try:
            reply, blobs = work()
        except GpuFault as fault:
            fields = {"error": fault.error, "hint": fault.hint, "code": fault.code}
            reply, blobs = {"type": "error", **fields}, []
        self._send({**reply, "id": header["id"]}, blobs)

    def _reply_or_end(self, header: dict[str, Any], work: Callable[[], Reply]) -> None:
        """On a thread of its own, where nobody else sees an exception."""
        try:
            self._reply(header, work)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _adapters(self) -> Reply:
        return {"type": "adapters", "adapters": _module("native").adapters()}, []

    def _open(self) -> Reply:
        native, library = _module("native"), _module("device")
        if self._device is not None:
            raise GpuFault("The GPU device is open already.")
        self._device = device = library.GpuDevice(native.choose(self._kind))
        facts = {
            **device.facts,
            "language_features": device.language_features,
            "timestamp_quantum_ns": device.quantum_ns,
            "stamp_slots": library.STAMP_SLOTS if device.has_stamps else 0,
            "max_read_bytes": library.MAX_READ_BYTES,
        }
        return {"type": "opened", **facts}, []

    def _opened(self) -> GpuDevice:
        if self._device is None:
            raise PageError("No GPU device is open.")
        return self._device


def _module(name: str) -> Any:
    """A module that needs wgpu, which may be missing: that is an answer, not a crash."""
    try:
        return importlib.import_module(f"nnjit_studio.engine.gpu_bridge.{name}")
    except (ImportError, OSError) as error:
        raise GpuFault(
            f"The package wgpu cannot be loaded: {error}.",
            "Install wgpu; it needs Python 3.11 or newer.",
            "gpu-unavailable",
        ) from error


def _compilation(
    device: GpuDevice, header: dict[str, Any], blobs: list[memoryview]
) -> Callable[[], Reply]:
    number, entry, access = (header.get(k) for k in ("pipeline", "entry", "access"))
    if (
        type(number) is not int
        or not isinstance(entry, str)
        or not isinstance(access, list)
        or not all(isinstance(a, str) for a in access)
        or len(blobs) != 1
    ):
        raise PageError("A request for a GPU pipeline is malformed.")
    try:
        code = bytes(blobs[0]).decode()
    except UnicodeDecodeError as error:
        raise PageError("A kernel's WGSL is not UTF-8.") from error
    return lambda: ({"type": "compiled", "ms": device.compile(number, code, entry, access)}, [])


def _settled(device: GpuDevice, work: Work, request: dict[str, Any]) -> Reply:
    """What a request brings, unless a batch before it failed: that has no reply of its own."""
    try:
        header, blobs = work(device, request)
    except GpuFault as fault:
        raise device.take_failure() or fault from None
    if (failure := device.take_failure()) is not None:
        raise failure
    return {**header, "counters": device.counters}, blobs


def _read(device: GpuDevice, header: dict[str, Any]) -> Reply:
    number, offset, nbytes = (_whole(header, k) for k in ("buffer", "offset", "nbytes"))
    return {"type": "bytes"}, [device.read(number, offset, nbytes)]


def _stamps(device: GpuDevice, header: dict[str, Any]) -> Reply:
    times = device.stamps(_whole(header, "count"))
    return {"type": "stamps"}, [struct.pack(f"<{len(times)}q", *times)]


def _done(device: GpuDevice, header: dict[str, Any]) -> Reply:
    device.wait()
    return {"type": "ok"}, []


def _whole(header: dict[str, Any], name: str) -> int:
    value = header.get(name)
    if type(value) is not int or not 0 <= value < 2**53:
        raise PageError(f"A GPU request has no {name}.")
    return value


def _receive(link: socket.socket) -> bytearray | None:
    head = exactly(link, LENGTH.size)
    if head is None:
        return None
    (nbytes,) = LENGTH.unpack(head)
    if nbytes > MAX_FRAME_BYTES:
        return None
    return exactly(link, nbytes)


def exactly(link: socket.socket, nbytes: int) -> bytearray | None:
    data = bytearray(nbytes)
    view = memoryview(data)
    while view:
        try:
            got = link.recv_into(view)
        except ConnectionError:
            return None
        if not got:
            return None
        view = view[got:]
    return data


def _write_chatter_to(path: str) -> None:
    out = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)


def _end_with_parent(chatter: str) -> None:
    """Also while a kernel runs: hanging up is noticed only between two frames."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def wait() -> None:
            parent.join()
            _remove(chatter)
            os._exit(0)

        threading.Thread(target=wait, name="nnjit-gpu-parent", daemon=True).start()


def _remove(chatter: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(chatter)
