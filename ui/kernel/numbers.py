"""The numbers of a kernel as rows: lite space and rules, bytes, milliseconds, limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnjit_studio.analysis.kernel.kernel import KernelInspection
from nnjit_studio.tuner.events import Measured
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.tables import Column

TABLE_1 = "Table 1 of the NNJIT paper, from the settings"
PER_BYTE = "FLOPs over the bytes of inputs and outputs, each moved once"


@dataclass(frozen=True)
class NumberRow:
    """``tone`` is a colour token of the theme for the value."""

    what: str
    value: object
    unit: str = ""
    source: str = ""
    tone: str = ""


def _shown(value: object) -> str:
    if value is None:
        return text.NONE
    if isinstance(value, float):
        return text.fixed(value, 3)
    return f"{value:,}" if isinstance(value, int) else str(value)


COLUMNS = (
    Column("what", lambda r: r.what, width=170),
    Column("value", lambda r: r.value, _shown, True, width=190, tone=lambda r: r.tone),
    Column("unit", lambda r: r.unit, lambda v: v or text.NONE, width=130),
    Column("where it comes from", lambda r: r.source, lambda v: v or text.NONE, width=420),
)


def number_rows(kernel: KernelInspection, measured: Measured | None) -> list[NumberRow]:
    """What is known of a kernel; rows without a value are left out, but for the limits."""
    return [*_candidate(kernel), *_made(kernel), *_limits(kernel, measured)]


def _candidate(kernel: KernelInspection) -> Iterator[NumberRow]:
    yield NumberRow("settings", kernel.settings, "", f"of {text.workload(kernel.workload.key)}")
    usage = kernel.usage
    if usage is None:
        why = "the default schedule is no candidate: no rule applies to it"
        yield NumberRow("lite space", None, "", why)
        return
    l1 = "workgroup memory" if kernel.on_gpu else "L1 cache"
    yield NumberRow("registers", usage.registers, "elements a thread", TABLE_1)
    yield NumberRow(l1, usage.l1_bytes, "bytes a block", TABLE_1)
    yield NumberRow("blocks per core", usage.blocks_per_core, "", TABLE_1)
    for v in kernel.verdicts:
        name = f"rule {v.rule.replace('_', ' ')}"
        yield NumberRow(name, "ok" if v.ok else "OUT", "", v.text, "good" if v.ok else "bad")


def _made(kernel: KernelInspection) -> Iterator[NumberRow]:
    if kernel.kernel is None:
        yield NumberRow("compiled", "no", "", kernel.error, "bad")
        return
    made, passes = kernel.kernel, len(kernel.passes)
    what = "kernel document (WGSL in JSON)" if kernel.on_gpu else "Wasm module"
    yield NumberRow("size", len(made.data), "bytes", what)
    yield NumberRow(
        "settings to bytes", kernel.compile_ms, "ms", f"sum of medians of {passes} compilations"
    )
    yield NumberRow("tier", kernel.tier, "", "the best that the page has")
    yield NumberRow("parallel extent", made.parallel_extent, "", "trips of the outermost loop")
    for argument, width in made.panels:
        yield NumberRow(f"argument {argument}", width, "columns a panel", "packed once")
    yield NumberRow("SHA-256", made.sha256, "", "of the bytes: equal settings give equal bytes")


def _limits(kernel: KernelInspection, measured: Measured | None) -> Iterator[NumberRow]:
    limits = kernel.limits
    if limits is not None:
        yield NumberRow("intensity", limits.intensity, "FLOP/byte", PER_BYTE)
        yield NumberRow("peak", limits.peak_gflops, "GFLOP/s", "probed by the page, all threads")
        yield NumberRow(
            "bandwidth", limits.bandwidth_gbs, "GB/s", "measured; a dash: measure this device"
        )
    if measured is not None:
        yield NumberRow("median", measured.ms or None, "ms", "of one run, by the page's clock")
        yield NumberRow("rate", measured.gflops or None, "GFLOP/s", "FLOPs over the median")
        roof = limits.roof_gflops if limits else None
        share = 100 * measured.gflops / roof if roof and measured.gflops else None
        yield NumberRow("of the roof", share, "%", "100 is the device's limit here")
        yield NumberRow(
            "error", measured.error_ratio, "of the bound", "against the float64 reference; 1 fails",
            "bad" if measured.error_ratio > 1 else "",
        )  # fmt: skip
        if measured.pipeline_ms:
            yield NumberRow(
                "pipeline", measured.pipeline_ms, "ms", "the GPU implementation's own compiler"
            )
