"""The hub's side of the GPU bridge: a process for each page that asks, and the pipe between.

The page speaks to the process itself (docs/webgpu.md, "The bridge"); the hub
only carries frames. What the process cannot survive ends its WebSocket, with
the reason in a last frame ``ended``; a new one gets a new process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import socket
import tempfile
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from nnjit_studio.engine.gpu_bridge import process as gpu_process
from nnjit_studio.engine.gpu_bridge.process import LENGTH
from nnjit_studio.engine.messages.connection import CLOSE_PROTOCOL_ERROR
from nnjit_studio.engine.messages.frames import decode_frame, encode_frame
from nnjit_studio.errors import PageError, TargetError
from nnjit_studio.support.interrupts import unheard
from nnjit_studio.support.temporary import process_folder

LOGGER = logging.getLogger("nnjit.gpu")
MAX_PROCESSES = 8
"""At once: the engine, what measures, and what is just ending after each of them."""

ADAPTERS_TIMEOUT_S = 30.0
_END_S = 2.0
_LAST_WORDS = 300


def spawned(link: socket.socket, chatter: str, adapter: str) -> BaseProcess:
    """A fresh process that serves at that end of a pair of sockets, started."""
    arguments = link, chatter, adapter
    process = multiprocessing.get_context("spawn").Process(
        target=gpu_process.serve, args=arguments, name="nnjit-gpu", daemon=True
    )
    with unheard():
        process.start()
    return process


class GpuProcess:
    """One started process and the socket to it."""

    def __init__(self, adapter: str) -> None:
        handle, self._chatter = tempfile.mkstemp(".log", "gpu-", process_folder())
        os.close(handle)
        self.socket, theirs = socket.socketpair()
        try:
            self._process = spawned(theirs, self._chatter, adapter)
        except BaseException:
            self.socket.close()
            Path(self._chatter).unlink(missing_ok=True)
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def end(self) -> str:
        """Kill the process if it does not end by itself; why it ended, in one sentence."""
        with contextlib.suppress(OSError):
            self.socket.close()
        self._process.join(_END_S)
        hung = self._process.is_alive()
        if hung:
            self._process.kill()
            self._process.join()
        code = self._process.exitcode
        lines: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            lines = Path(self._chatter).read_text(errors="replace").splitlines()
        said = " ".join(dict.fromkeys(line.strip() for line in lines))[-_LAST_WORDS:].strip()
        Path(self._chatter).unlink(missing_ok=True)
        self._process.close()
        how = "had to be killed" if hung else f"ended with code {code}"
        return f"The GPU process {how}" + (f"; it said: {said}" if said else "")


class GpuBridge:
    """Gives every WebSocket that the hub lets in a GPU process of its own.

    Attributes
    ----------
    adapter
        ``hardware`` or ``software``: what processes from now on may open.
    """

    def __init__(self, adapter: str = "hardware") -> None:
        self.adapter = adapter
        self._live = 0

    async def serve(self, websocket: WebSocket) -> None:
        """The whole life of one WebSocket; on the hub's loop."""
        await websocket.accept()
        if self._live >= MAX_PROCESSES:
            await _finish(websocket, f"{MAX_PROCESSES} GPU processes run already.")
            return
        self._live += 1
        try:
            process = await asyncio.to_thread(GpuProcess, self.adapter)
            try:
                gone = await _carry(websocket, process)
            finally:
                reason = await asyncio.shield(asyncio.to_thread(process.end))
        finally:
            self._live -= 1
        if gone:
            LOGGER.warning("%s", reason)
            await _finish(websocket, reason)


async def _carry(websocket: WebSocket, process: GpuProcess) -> bool:
    """Frames both ways until one side ends; whether it was the process."""
    reader, writer = await asyncio.open_connection(sock=process.socket)
    down = asyncio.create_task(_to_page(reader, websocket))
    up = asyncio.create_task(_to_process(websocket, writer))
    try:
        await asyncio.wait({down, up}, return_when=asyncio.FIRST_COMPLETED)
        page_went = up.done() and up.result()
        if not page_went and not down.done():
            await asyncio.wait({down}, timeout=_END_S)  # it may have said why it ended
        return not page_went
    finally:
        for task in (down, up):
            task.cancel()
        await asyncio.gather(down, up, return_exceptions=True)
        writer.close()


async def _to_process(websocket: WebSocket, writer: asyncio.StreamWriter) -> bool:
    """Until one of the two is gone; whether it was the page."""
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return True
        data = message.get("bytes")
        if data is None:
            await _finish(websocket, "A GPU frame is malformed: it is text, not binary.")
            return True
        try:
            writer.write(LENGTH.pack(len(data)))
            writer.write(data)
            await writer.drain()
        except OSError:
            return False


async def _to_page(reader: asyncio.StreamReader, websocket: WebSocket) -> None:
    """Until one of the two is gone."""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError, WebSocketDisconnect):
        while True:
            (nbytes,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            await websocket.send_bytes(await reader.readexactly(nbytes))


async def _finish(websocket: WebSocket, reason: str) -> None:
    """Say why and close, if the page still listens; a close frame alone holds 123 bytes."""
    state = (websocket.client_state, websocket.application_state)
    if state == (WebSocketState.CONNECTED, WebSocketState.CONNECTED):
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await websocket.send_bytes(encode_frame({"type": "ended", "reason": reason}))
            await websocket.close(CLOSE_PROTOCOL_ERROR)


def list_adapters() -> list[dict[str, Any]]:
    """What wgpu-native finds on this machine, asked of a process that ends with the answer.

    Returns
    -------
    list
        Of :func:`nnjit_studio.engine.gpu_bridge.native.adapter_facts`, the most promising first.

    Raises
    ------
    TargetError
        When wgpu cannot be loaded, or looking for adapters kills its process.
    """
    process = GpuProcess("hardware")
    header: dict[str, Any] = {}
    try:
        process.socket.settimeout(ADAPTERS_TIMEOUT_S)
        frame = encode_frame({"type": "adapters", "id": 1})
        process.socket.sendall(LENGTH.pack(len(frame)) + frame)
        (nbytes,) = LENGTH.unpack(_exactly(process.socket, LENGTH.size))
        header, _ = decode_frame(_exactly(process.socket, nbytes))
    except (OSError, PageError):
        pass  # the process is gone or hangs; why, is known when it has ended
    finally:
        why = process.end()
    if not header:
        raise TargetError(why, "Update the GPU's driver.")
    if header["type"] == "error":
        raise TargetError(header["error"], header["hint"])
    adapters: list[dict[str, Any]] = header["adapters"]
    return adapters


def _exactly(link: socket.socket, nbytes: int) -> bytes:
    data = gpu_process.exactly(link, nbytes)
    if data is None:
        raise ConnectionResetError
    return bytes(data)
