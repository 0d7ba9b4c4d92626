"""A GPU device of wgpu-native that does what a page's commands say; lives in its own process.

wgpu-native ends its process where a submission is invalid. So handles, ranges
and sizes are checked here first, a batch that was recorded with an error is
never submitted, and nothing outlives a destroyed buffer.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import wgpu
from wgpu.backends.wgpu_native import ffi, lib

from nnjit_studio.engine.gpu_bridge import wire as gpu_wire
from nnjit_studio.engine.gpu_bridge.native import (
    FEATURES,
    LIMITS,
    adapter_facts,
    fault_of,
    language_features,
    said,
)
from nnjit_studio.engine.gpu_bridge.wire import (
    COMPILER_THREAD,
    Copy,
    Create,
    Destroy,
    GpuFault,
    Stamp,
    Write,
)

STAMP_SLOTS = 4096
MAX_BUFFERS = 65536
MAX_PIPELINES = 16384
MAX_CODE_BYTES = 4 * 2**20
MAX_READ_BYTES = 64 * 2**20
LEAST_STAGING_BYTES = 4096

_USAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
_ENABLE_SUBGROUPS = "enable subgroups;"
_LOST = "The WGPU device was lost"


@dataclass
class _Layout:
    """One for each list of accesses, so that pipelines share bind groups."""

    group: Any
    pipeline: Any
    count: int
    groups: dict[bytes, Any] = field(default_factory=dict)


@dataclass
class _Buffer:
    gpu: Any
    nbytes: int
    used_by: list[tuple[_Layout, bytes]] = field(default_factory=list)


@dataclass(frozen=True)
class _Pipeline:
    gpu: Any
    raw: Any
    layout: _Layout


class GpuDevice:
    """A device and all that a page made on it, by the page's own numbers.

    Attributes
    ----------
    failure
        The first error since it was last taken, None without one.
    lost
        Why the device is gone, empty while it is there.
    counters
        How often things happened, by the page's names (resources/types/gpu.js).
    """

    def __init__(self, adapter: Any) -> None:
        facts = adapter_facts(adapter)
        self.facts = facts
        self.failure: GpuFault | None = None
        self.lost = ""
        self.counters = dict.fromkeys(
            ("passes", "bind_groups_made", "bind_groups_hit", "staging_made", "staging_reused"), 0
        )
        logging.getLogger("wgpu").addHandler(_Listener(self))
        try:
            self._device = adapter.request_device_sync(
                required_features=[n for n in FEATURES if n in adapter.features],
                required_limits={name: adapter.limits[name] for name in LIMITS},
            )
        except (wgpu.GPUError, RuntimeError) as error:
            raise GpuFault(said(error), code="gpu-unavailable") from error
        self._queue = self._device.queue
        self._buffers: dict[int, _Buffer] = {}
        self._pipelines: dict[int, _Pipeline] = {}
        self._layouts: dict[tuple[str, ...], _Layout] = {}
        self._staging: dict[int, Any] = {}
        self._encoder: Any = None
        self._pass: Any = None
        self._raw_pass: Any = None
        self._bound: tuple[Any, Any] = (None, None)
        self._most_groups = facts["limits"]["maxComputeWorkgroupsPerDimension"]
        self._room = _software_room() if facts["is_fallback"] else None
        self._stamps: Any = None
        self._stamped: set[int] = set()
        if self.has_stamps:
            self._stamps = self._device.create_query_set(type="timestamp", count=STAMP_SLOTS)
            self._resolved = self._device.create_buffer(
                size=8 * STAMP_SLOTS,
                usage=wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC,
            )
        self.language_features = language_features(self._device)
        self.take_failure()  # what naga refused was logged

    @property
    def has_stamps(self) -> bool:
        return "timestamp-query" in self.facts["features"]

    @property
    def quantum_ns(self) -> float:
        """Nanoseconds of one tick of the GPU's clock, 0 without timestamps."""
        if not self.has_stamps:
            return 0.0
        return float(lib.wgpuQueueGetTimestampPeriod(self._queue._internal))

    def take_failure(self) -> GpuFault | None:
        failure, self.failure = self.failure, None
        return failure

    def compile(self, number: int, code: str, entry: str, access: Sequence[str]) -> float:
        """Make a pipeline, on any thread; the milliseconds that it took.

        Raises
        ------
        GpuFault
            With what the compiler says, or when the request is not one.
        """
        if number in self._pipelines or len(self._pipelines) >= MAX_PIPELINES:
            raise GpuFault(f"Pipeline {number} is there already, or there are too many.")
        if len(code) > MAX_CODE_BYTES:
            raise GpuFault(f"A kernel of {len(code)} bytes is over {MAX_CODE_BYTES}.")
        if len(access) > gpu_wire.MAX_BINDINGS or not set(access) <= {"read", "read_write"}:
            raise GpuFault("The accesses of a pipeline are not a list of read and read_write.")
        # naga knows subgroup operations without the directive, and refuses the directive.
        if "subgroups" in self.facts["features"]:
            code = code.replace(_ENABLE_SUBGROUPS, " " * len(_ENABLE_SUBGROUPS))
        start = time.perf_counter()
        try:
            layout = self._layout(tuple(access))
            stage = {
                "module": self._device.create_shader_module(code=code),
                "entry_point": entry,
            }
            made = self._device.create_compute_pipeline(layout=layout.pipeline, compute=stage)
        except (wgpu.GPUError, RuntimeError) as error:
            raise GpuFault(said(error), code="gpu-kernel") from error
        self._pipelines[number] = _Pipeline(made, made._internal, layout)
        return (time.perf_counter() - start) * 1e3

    def run(self, commands: Iterable[gpu_wire.Command], blobs: Sequence[memoryview]) -> None:
        """Do what a batch says and submit it. An error is kept in :attr:`failure`; what comes
        behind it is done nevertheless.

        Raises
        ------
        PageError
            When the batch is malformed.
        """
        dead: list[Any] = []
        for command in commands:
            try:
                if isinstance(command, tuple):
                    self._dispatch(*command)
                elif isinstance(command, Create):
                    self._create(command)
                elif isinstance(command, Destroy):
                    dead.append(self._forget(command.buffer))
                elif isinstance(command, Write):
                    self._write(command, blobs)
                elif isinstance(command, Copy):
                    self._copy(command)
                else:
                    self._stamp(command)
            except GpuFault as fault:
                self.failure = self.failure or fault
            except (wgpu.GPUError, RuntimeError, ValueError) as error:
                self.failure = self.failure or fault_of(error)
        self.flush()
        for buffer in dead:
            buffer.destroy()

    def flush(self) -> None:
        """Submit what is recorded; a recording with an error is dropped and kept as failure."""
        encoder, self._encoder = self._encoder, None
        if encoder is None:
            return
        try:
            self._leave_pass()
            self._queue.submit([encoder.finish()])
        except (wgpu.GPUError, RuntimeError) as error:
            self._pass = self._raw_pass = None
            self.failure = self.failure or fault_of(error)

    def wait(self) -> None:
        """Until everything that was submitted is done."""
        self.flush()
        # wgpu 0.32's own on_submitted_work_done does not work (a wrong callback type).
        lib.wgpuDevicePoll(self._device._internal, True, ffi.NULL)

    def read(self, number: int, offset: int, nbytes: int) -> bytes:
        """The bytes of a buffer after all that was asked before.

        Raises
        ------
        GpuFault
        """
        buffer = self._buffer(number)
        _check_range(number, buffer, offset, nbytes)
        if not 0 < nbytes <= MAX_READ_BYTES:
            raise GpuFault(f"{nbytes} bytes cannot be read at once.")
        return self._download(buffer.gpu, offset, nbytes)

    def stamps(self, count: int) -> list[int]:
        """Nanoseconds of the first ``count`` slots.

        Raises
        ------
        GpuFault
            Without timestamps, or where one of the slots was never written.
        """
        if not 0 < count <= STAMP_SLOTS or not self._stamped.issuperset(range(count)):
            raise GpuFault(f"The first {count} timestamps were not all taken.")
        self._leave_pass()
        self._recording().resolve_query_set(self._stamps, 0, count, self._resolved, 0)
        ticks = memoryview(self._download(self._resolved, 0, 8 * count)).cast("Q")
        period = Fraction(self.quantum_ns)
        return [int(t * period) & (2**63 - 1) for t in ticks]

    def _create(self, command: Create) -> None:
        number, nbytes = command.buffer, command.nbytes
        if number in self._buffers or len(self._buffers) >= MAX_BUFFERS:
            raise GpuFault(f"Buffer {number} is there already, or there are too many.")
        if nbytes % 4 or not 0 < nbytes <= self.facts["limits"]["maxBufferSize"]:
            raise GpuFault(f"A buffer cannot have {nbytes} bytes here.", code="gpu-memory")
        if self._room is not None and nbytes > self._room:
            raise GpuFault(
                f"{nbytes} bytes more do not fit: a software adapter may take half of the memory.",
                code="gpu-memory",
            )
        made = self._device.create_buffer(size=nbytes, usage=_USAGE)
        self._buffers[number] = _Buffer(made, nbytes)
        if self._room is not None:
            self._room -= nbytes

    def _forget(self, number: int) -> Any:
        buffer = self._buffer(number)
        del self._buffers[number]
        for layout, packed in buffer.used_by:
            layout.groups.pop(packed, None)
        if self._room is not None:
            self._room += buffer.nbytes
        return buffer.gpu

    def _write(self, command: Write, blobs: Sequence[memoryview]) -> None:
        buffer = self._buffer(command.buffer)
        if command.blob >= len(blobs):
            raise GpuFault(f"The batch has no blob {command.blob}.")
        data = blobs[command.blob]
        _check_range(command.buffer, buffer, command.offset, data.nbytes)
        self.flush()  # a write happens before all that is submitted behind it
        if data.nbytes:
            self._queue.write_buffer(buffer.gpu, command.offset, data)

    def _copy(self, command: Copy) -> None:
        source, to = self._buffer(command.source), self._buffer(command.to)
        _check_range(command.source, source, command.source_offset, command.nbytes)
        _check_range(command.to, to, command.to_offset, command.nbytes)
        if source is to:
            raise GpuFault("A copy needs two buffers.")
        self._leave_pass()
        self._recording().copy_buffer_to_buffer(
            source.gpu, command.source_offset, to.gpu, command.to_offset, command.nbytes
        )

    def _stamp(self, command: Stamp) -> None:
        if self._stamps is None or command.index >= STAMP_SLOTS:
            raise GpuFault(f"There is no timestamp slot {command.index}.")
        self._leave_pass()
        writes = {
            "query_set": self._stamps,
            "beginning_of_pass_write_index": command.index,
        }
        self._recording().begin_compute_pass(timestamp_writes=writes).end()
        self._stamped.add(command.index)

    def _dispatch(self, number: int, x: int, y: int, z: int, packed: bytes) -> None:
        pipeline = self._pipelines.get(number)
        if pipeline is None:
            raise GpuFault(f"There is no pipeline {number}.")
        if max(x, y, z) > self._most_groups:
            raise GpuFault(f"{x} x {y} x {z} workgroups are over {self._most_groups}.")
        group = pipeline.layout.groups.get(packed)
        if group is None:
            group = self._group(pipeline.layout, packed)
        else:
            self.counters["bind_groups_hit"] += 1
        if self._pass is None:
            self._pass = self._recording().begin_compute_pass()
            self.counters["passes"] += 1
            self._raw_pass = self._pass._internal
            self._bound = (None, None)
        # The library's own functions: the package's wrappers cost three times as much.
        raw = self._raw_pass
        bound_pipeline, bound_group = self._bound
        if bound_pipeline is not pipeline.raw:
            lib.wgpuComputePassEncoderSetPipeline(raw, pipeline.raw)
        if bound_group is not group:
            lib.wgpuComputePassEncoderSetBindGroup(raw, 0, group._internal, 0, ffi.NULL)
        self._bound = (pipeline.raw, group)
        lib.wgpuComputePassEncoderDispatchWorkgroups(raw, x, y, z)

    def _group(self, layout: _Layout, packed: bytes) -> Any:
        bindings = gpu_wire.bindings(packed)
        if len(bindings) != layout.count:
            raise GpuFault(f"{len(bindings)} bindings do not fit a kernel of {layout.count}.")
        buffers = [self._buffer(number) for number, _, _ in bindings]
        for buffer, (number, offset, size) in zip(buffers, bindings, strict=True):
            _check_range(number, buffer, offset, size)
        entries = [
            {"binding": i, "resource": {"buffer": buffer.gpu, "offset": offset, "size": size}}
            for i, (buffer, (_, offset, size)) in enumerate(zip(buffers, bindings, strict=True))
        ]
        group = self._device.create_bind_group(layout=layout.group, entries=entries)
        layout.groups[packed] = group
        self.counters["bind_groups_made"] += 1
        for buffer in buffers:
            buffer.used_by.append((layout, packed))
        return group

    def _layout(self, access: tuple[str, ...]) -> _Layout:
        if access not in self._layouts:
            entries = [
                {
                    "binding": i,
                    "visibility": wgpu.ShaderStage.COMPUTE,
                    "buffer": {"type": "read-only-storage" if how == "read" else "storage"},
                }
                for i, how in enumerate(access)
            ]
            group = self._device.create_bind_group_layout(entries=entries)
            made = self._device.create_pipeline_layout(bind_group_layouts=[group])
            self._layouts[access] = _Layout(group, made, len(access))
        return self._layouts[access]

    def _buffer(self, number: int) -> _Buffer:
        buffer = self._buffers.get(number)
        if buffer is None:
            raise GpuFault(f"There is no buffer {number}.")
        return buffer

    def _recording(self) -> Any:
        if self._encoder is None:
            self._encoder = self._device.create_command_encoder()
        return self._encoder

    def _leave_pass(self) -> None:
        if self._pass is not None:
            ending, self._pass, self._raw_pass = self._pass, None, None
            ending.end()

    def _download(self, source: Any, offset: int, nbytes: int) -> bytes:
        size = max(LEAST_STAGING_BYTES, 1 << (nbytes - 1).bit_length())
        known = size in self._staging
        self.counters["staging_reused" if known else "staging_made"] += 1
        if not known:
            self._staging[size] = self._device.create_buffer(
                size=size, usage=wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
            )
        staging = self._staging[size]
        try:
            self._leave_pass()
            self._recording().copy_buffer_to_buffer(source, offset, staging, 0, nbytes)
            self.flush()
            staging.map_async("READ_NOSYNC", 0, nbytes).sync_wait()
            try:
                return bytes(staging.read_mapped(0, nbytes, copy=False))
            finally:
                staging.unmap()
        except (wgpu.GPUError, RuntimeError) as error:
            raise fault_of(error) from error


class _Listener(logging.Handler):
    """Hears the errors that the package can only log, and the loss of the device."""

    def __init__(self, device: GpuDevice) -> None:
        super().__init__(logging.ERROR)
        self._device = device

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith(_LOST):
            self._device.lost = " ".join(text.split())
        # What a compiler thread is told is raised there as well.
        elif text != "DEVICE LOST!" and not str(record.threadName).startswith(COMPILER_THREAD):
            self._device.failure = self._device.failure or GpuFault(said(text))


def _check_range(number: int, buffer: _Buffer, offset: int, nbytes: int) -> None:
    if offset % 4 or nbytes % 4 or offset + nbytes > buffer.nbytes:
        raise GpuFault(
            f"{nbytes} bytes at {offset} do not lie in buffer {number} of {buffer.nbytes} bytes."
        )


def _software_room() -> int | None:
    """Half of this machine's memory in bytes, None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return None
