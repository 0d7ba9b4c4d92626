"""Recording of GPU commands: what is encoded until it is submitted, and its compute pass."""

from __future__ import annotations

from typing import Any

from wgpu.backends.wgpu_native import ffi, lib


class Recording:
    """The command encoder of a device, and the pass that is open in it.

    Attributes
    ----------
    passes
        Compute passes begun for dispatches until now.
    """

    def __init__(self, device: Any) -> None:
        self.passes = 0
        self._device = device
        self._encoder: Any = None
        self._pass: Any = None
        self._raw_pass: Any = None
        self._bound: tuple[Any, Any] = (None, None)

    def encoder(self) -> Any:
        """The encoder for what goes outside of a pass; an open pass ends."""
        self._leave_pass()
        return self._recording()

    def dispatch(self, pipeline: Any, group: Any, workgroups: tuple[int, int, int]) -> None:
        """Record a dispatch; ``pipeline`` is wgpu-native's own."""
        if self._pass is None:
            self._pass = self._recording().begin_compute_pass()
            self.passes += 1
            self._raw_pass = self._pass._internal
            self._bound = (None, None)
        # The library's own functions: the package's wrappers cost three times as much.
        raw = self._raw_pass
        bound_pipeline, bound_group = self._bound
        if bound_pipeline is not pipeline:
            lib.wgpuComputePassEncoderSetPipeline(raw, pipeline)
        if bound_group is not group:
            lib.wgpuComputePassEncoderSetBindGroup(raw, 0, group._internal, 0, ffi.NULL)
        self._bound = (pipeline, group)
        lib.wgpuComputePassEncoderDispatchWorkgroups(raw, *workgroups)

    def submit(self) -> None:
        """Submit what is recorded; a recording with an error is dropped, and the error raised."""
        encoder, self._encoder = self._encoder, None
        if encoder is None:
            return
        try:
            self._leave_pass()
            self._device.queue.submit([encoder.finish()])
        except BaseException:
            self._pass = self._raw_pass = None
            raise

    def _recording(self) -> Any:
        if self._encoder is None:
            self._encoder = self._device.create_command_encoder()
        return self._encoder

    def _leave_pass(self) -> None:
        if self._pass is not None:
            ending, self._pass, self._raw_pass = self._pass, None, None
            ending.end()
