"""Options for where kernels run: target, backend, threads, sandbox, database."""

from __future__ import annotations

from typing import Any

import click

from nnjit_studio.cli.verbs import FILE, group, option
from nnjit_studio.records.backend import BACKENDS, GPU_CHOICES
from nnjit_studio.records.lab import LABS
from nnjit_studio.records.target_options import TargetOptions

TARGET_HELP = (
    "embedded, chromium, chrome, edge, firefox, the path of a browser, or device: a phone that "
    "joins by a QR code."
)
OPTIONS: dict[str, Any] = {
    "target": option("embedded", TARGET_HELP),
    "backend": option(
        "wasm", "Run kernels on the CPU (wasm) or on a GPU.", type=click.Choice(BACKENDS)
    ),
    "gpu": option(
        "auto",
        "auto: the target's own GPU; software: a software adapter too; "
        "bridge: through the Studio, as the embedded engine always does.",
        type=click.Choice(GPU_CHOICES),
    ),
    "threads": option(1, "Threads of a kernel; Wasm only.", type=click.IntRange(1, 64)),
    "lab": option(
        None,
        "An experimental mode of the embedded engine; its results never enter a bundle.",
        type=click.Choice([*LABS]),
        callback=lambda context, option, name: name or "",
    ),
    "listen": option(
        "", "For --target device: this machine's ADDRESS[:PORT] in the network of the house."
    ),
    "no_sandbox": option(
        False, "Run the web engine without its sandbox; needed as root, never automatic."
    ),
    "database": option(
        None,
        "Path of the kernel database; by default in the user's data folder.",
        type=FILE,
        envvar="NNJIT_DATABASE",
    ),
}
"""By the fields of :class:`TargetOptions`."""


def target_options(*names: str) -> Any:
    """Makes :class:`TargetOptions` of these of its options, else of all."""
    return group(TargetOptions, {name: OPTIONS[name] for name in names or OPTIONS})
