"""A GPU device of wgpu-native that does what a page's commands say; lives in its own process.

wgpu-native ends its process where a submission is invalid. So handles, ranges
and sizes are checked here first, and a batch that was recorded with an error is
never submitted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import wgpu
from wgpu.backends.wgpu_native import ffi, lib

from nnjit_studio.engine.gpu_bridge.buffers import Buffers, Layout
from nnjit_studio.engine.gpu_bridge.native import (
    FEATURES,
    LIMITS,
    adapter_facts,
    fault_of,
    language_features,
    said,
)
from nnjit_studio.engine.gpu_bridge.recording import Recording
from nnjit_studio.engine.gpu_bridge.wire import (
    COMPILER_THREAD,
    MAX_BINDINGS,
    Command,
    Copy,
    Create,
    Destroy,
    GpuFault,
    Stamp,
    Write,
)

STAMP_SLOTS = 4096
MAX_PIPELINES = 16384
MAX_CODE_BYTES = 4 * 2**20
MAX_READ_BYTES = 64 * 2**20
LEAST_STAGING_BYTES = 4096

_ENABLE_SUBGROUPS = "enable subgroups;"
_LOST = "The WGPU device was lost"


@dataclass(frozen=True)
class _Pipeline:
    gpu: Any
    raw: Any
    layout: Layout


class GpuDevice:
    """A device and all that a page made on it, by the page's own numbers.

    Attributes
    ----------
    failure
        The first error since it was last taken, None without one.
    lost
        Why the device is gone, empty while it is there.
    """

    def __init__(self, adapter: Any) -> None:
        self.facts = adapter_facts(adapter)
        self.failure: GpuFault | None = None
        self.lost = ""
        logging.getLogger("wgpu").addHandler(_Listener(self))
        try:
            self._device = adapter.request_device_sync(
                required_features=[n for n in FEATURES if n in adapter.features],
                required_limits={name: adapter.limits[name] for name in LIMITS},
            )
        except (wgpu.GPUError, RuntimeError) as error:
            raise GpuFault(said(error), code="gpu-unavailable") from error
        limits = self.facts["limits"]
        self._buffers = Buffers(self._device, limits["maxBufferSize"], self.facts["is_fallback"])
        self._recording = Recording(self._device)
        self._pipelines: dict[int, _Pipeline] = {}
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._staging: dict[int, Any] = {}
        self._counted = dict.fromkeys(
            ("bind_groups_made", "bind_groups_hit", "staging_made", "staging_reused"), 0
        )
        self._most_groups = limits["maxComputeWorkgroupsPerDimension"]
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
        return float(lib.wgpuQueueGetTimestampPeriod(self._device.queue._internal))

    @property
    def counters(self) -> dict[str, int]:
        """How often things happened, by the page's names (resources/types/gpu.js)."""
        return {"passes": self._recording.passes, **self._counted}

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
        if len(access) > MAX_BINDINGS or not set(access) <= {"read", "read_write"}:
            raise GpuFault("The accesses of a pipeline are not a list of read and read_write.")
        # naga knows subgroup operations without the directive, and refuses the directive.
        if "subgroups" in self.facts["features"]:
            code = code.replace(_ENABLE_SUBGROUPS, " " * len(_ENABLE_SUBGROUPS))
        start = time.perf_counter()
        try:
            layout = self._layout(tuple(access))
            module = self._device.create_shader_module(code=code)
            made = self._device.create_compute_pipeline(
                layout=layout.pipeline, compute={"module": module, "entry_point": entry}
            )
        except (wgpu.GPUError, RuntimeError) as error:
            raise GpuFault(said(error), code="gpu-kernel") from error
        self._pipelines[number] = _Pipeline(made, made._internal, layout)
        return (time.perf_counter() - start) * 1e3

    def run(self, commands: Iterable[Command], blobs: Sequence[memoryview]) -> None:
        """Do what a batch says and submit it. An error is kept in :attr:`failure`; the commands
        after it are done nevertheless.

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
                    self._buffers.create(command)
                elif isinstance(command, Destroy):
                    dead.append(self._buffers.forget(command.buffer))
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
        try:
            self._recording.submit()
        except (wgpu.GPUError, RuntimeError) as error:
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
        buffer = self._buffers[number]
        buffer.check(offset, nbytes)
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
        self._recording.encoder().resolve_query_set(self._stamps, 0, count, self._resolved, 0)
        ticks = memoryview(self._download(self._resolved, 0, 8 * count)).cast("Q")
        period = Fraction(self.quantum_ns)
        return [int(t * period) & (2**63 - 1) for t in ticks]

    def _write(self, command: Write, blobs: Sequence[memoryview]) -> None:
        buffer = self._buffers[command.buffer]
        if command.blob >= len(blobs):
            raise GpuFault(f"The batch has no blob {command.blob}.")
        data = blobs[command.blob]
        buffer.check(command.offset, data.nbytes)
        self.flush()  # a write happens before all that is submitted after it
        if data.nbytes:
            self._device.queue.write_buffer(buffer.gpu, command.offset, data)

    def _copy(self, command: Copy) -> None:
        source, to = self._buffers[command.source], self._buffers[command.to]
        source.check(command.source_offset, command.nbytes)
        to.check(command.to_offset, command.nbytes)
        if source is to:
            raise GpuFault("A copy needs two buffers.")
        self._recording.encoder().copy_buffer_to_buffer(
            source.gpu, command.source_offset, to.gpu, command.to_offset, command.nbytes
        )

    def _stamp(self, command: Stamp) -> None:
        if self._stamps is None or command.index >= STAMP_SLOTS:
            raise GpuFault(f"There is no timestamp slot {command.index}.")
        writes = {"query_set": self._stamps, "beginning_of_pass_write_index": command.index}
        self._recording.encoder().begin_compute_pass(timestamp_writes=writes).end()
        self._stamped.add(command.index)

    def _dispatch(self, number: int, x: int, y: int, z: int, packed: bytes) -> None:
        pipeline = self._pipelines.get(number)
        if pipeline is None:
            raise GpuFault(f"There is no pipeline {number}.")
        if max(x, y, z) > self._most_groups:
            raise GpuFault(f"{x} x {y} x {z} workgroups are over {self._most_groups}.")
        group = pipeline.layout.groups.get(packed)
        if group is None:
            group = self._buffers.make_group(pipeline.layout, packed)
            self._counted["bind_groups_made"] += 1
        else:
            self._counted["bind_groups_hit"] += 1
        self._recording.dispatch(pipeline.raw, group, (x, y, z))

    def _layout(self, access: tuple[str, ...]) -> Layout:
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
            self._layouts[access] = Layout(group, made, len(access))
        return self._layouts[access]

    def _download(self, source: Any, offset: int, nbytes: int) -> bytes:
        size = max(LEAST_STAGING_BYTES, 1 << (nbytes - 1).bit_length())
        known = size in self._staging
        self._counted["staging_reused" if known else "staging_made"] += 1
        if not known:
            self._staging[size] = self._device.create_buffer(
                size=size, usage=wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
            )
        staging = self._staging[size]
        try:
            self._recording.encoder().copy_buffer_to_buffer(source, offset, staging, 0, nbytes)
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
