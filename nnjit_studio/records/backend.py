"""The backend of a page: Wasm on the processor, or WGSL on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.errors import UserError

BACKENDS = ("wasm", "webgpu")
GPU_CHOICES = ("auto", "software", "bridge")
"""Of adapters: the target's own, software where it is asked for, or one behind the hub."""


@dataclass(frozen=True)
class Backend:
    """A choice of kernels and of what runs them."""

    name: str = "wasm"
    """One of :data:`BACKENDS`."""
    implementation: str = ""
    """Of WebGPU, as in :class:`~nnjit_studio.records.gpu_profile.GpuProfile`; empty for Wasm."""
    software: bool = False
    """Whether an adapter in software was asked for; without that it is refused."""

    @property
    def is_gpu(self) -> bool:
        return self.name == "webgpu"

    @property
    def label(self) -> str:
        """For people: ``Wasm`` or ``WebGPU``."""
        return "WebGPU" if self.is_gpu else "Wasm"

    def threads_note(self, threads: int) -> str:
        """An explanation of the number of threads, where this backend does not use it."""
        if not self.is_gpu or threads == 1:
            return ""
        return (
            f"The {threads} threads are for Wasm alone, should the model fall back to it: "
            "a kernel on a GPU has its own."
        )

    def target(self, engine: str) -> str:
        """The identity of what is measured in an engine: ``chromium+webgpu``, ``embedded+wgpu``."""
        if not self.is_gpu:
            return engine
        return f"{engine}+{'wgpu' if self.implementation == 'bridge' else 'webgpu'}"

    def fields(self) -> dict[str, str]:
        """What a request to the page says of it; nothing for Wasm."""
        return {"backend": self.name, "implementation": self.implementation} if self.is_gpu else {}


WASM = Backend()
SOFTWARE_SUFFIX = "+software"


def is_software(target: str) -> bool:
    """Whether a target's name, such as a record's, is that of an adapter in software."""
    return SOFTWARE_SUFFIX in target


def adapter_wanted(backend: Backend) -> str:
    """Which adapter a browser is started with: ``hardware``, ``software`` or none."""
    if backend.implementation != "navigator":
        return ""
    return "software" if backend.software else "hardware"


def choose_backend(name: str, gpu: str, engine: str) -> Backend:
    """The backend that a user asked for, in an engine such as ``embedded`` or ``chromium``.

    The embedded engine is built without WebGPU, Firefox has it on few systems: there the
    bridge runs the kernels, elsewhere the browser.

    Raises
    ------
    UserError
        When ``gpu`` says something and the backend is Wasm.
    """
    if name != "webgpu":
        if gpu != "auto":
            raise UserError(f"--gpu {gpu} is for WebGPU.", "Add --backend webgpu.")
        return WASM
    bridged = gpu == "bridge" or engine.startswith("embedded")  # with or without a lab mode
    return Backend(name, "bridge" if bridged else "navigator", gpu == "software")
