"""The verb ``compile``: one kernel without a page."""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from nnjit_studio.analysis.kernel.kernel import inspect_kernel
from nnjit_studio.analysis.kernel.text import inspection_json, inspection_text
from nnjit_studio.cli.common import JSON, answer, note, print_json, say
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import OUTPUT, argument, group, option, same, verb
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES, PASSES
from nnjit_studio.compiler.pipeline.wgsl import WGSL_PASSES
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.compiler.spelling import SPELLING, looks_like_spec
from nnjit_studio.device.gpu_constants import typical
from nnjit_studio.device.host import host_profile
from nnjit_studio.errors import CompileError, UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.records import GPU_TIERS, TIERS, CompileResult, DeviceProfile
from nnjit_studio.records.candidate import DEFAULT_SETTINGS, settings_of
from nnjit_studio.records.gpu_candidate import candidate_of
from nnjit_studio.support.files import replacing
from nnjit_studio.support.tables import text_table

EMIT = "emit"
"""The pass after which a WebGPU kernel is WGSL."""
UNKNOWN_GPU = "unknown"

# \b keeps click from filling the lines of the table.
HELP = "\b\n" + SPELLING.replace("\n\n", "\n\n\b\n")


def parse_passes(text: str | None) -> tuple[str, ...] | None:
    """``none`` or a comma list; None, for all passes, without the option."""
    if text is None:
        return None
    chosen = () if text == "none" else tuple(filter(None, text.replace(" ", "").split(",")))
    for name in chosen:
        check_pass(name, OPTIONAL_PASSES)
    return chosen


def check_pass(name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise UserError(f"There is no pass {name!r} to choose.", f"Use {', '.join(known)}.")


def tier_of(backend: str, tier: str | None) -> str:
    """The tier asked for, or the backend's plain one.

    Raises
    ------
    UserError
        When the tier is the other backend's.
    """
    own = GPU_TIERS if backend == "webgpu" else TIERS
    if tier is None:
        return own[0] if backend == "webgpu" else own[-1]
    if tier not in own:
        raise UserError(
            f"The tier {tier} is not one of --backend {backend}.", f"Use {', '.join(own)}."
        )
    return tier


def assumed_device(backend: str, on: str) -> DeviceProfile:
    """This machine as it tells of itself, with a GPU of the table for WebGPU."""
    host = host_profile()
    if backend != "webgpu":
        return host
    gpu = typical("" if on == UNKNOWN_GPU else on)
    return replace(host, gpu=gpu, tiers=GPU_TIERS[:1], device_id=on)


@dataclass(frozen=True)
class KernelOptions:
    """A kernel's settings, how it is compiled, and what is shown of it."""

    settings: str = option(
        DEFAULT_SETTINGS,
        "Settings such as x0=8,y0=6,r0=4,x1=8,y1=6,r1=768; `nnjit space` lists them.",
        flag="--candidate",
    )
    backend: str = same(OPTIONS["backend"])
    tier: str | None = option(
        None, "By default the backend's first choice.", type=click.Choice((*TIERS, *GPU_TIERS))
    )
    passes: str | None = option(
        None, "Optional passes to run: none, or a comma list; all by default."
    )
    dump_after: str | None = option(None, "Print the text form after this pass.", metavar="PASS")
    changes: bool = option(
        False, "Print what each pass changed, and the numbers of the lite space."
    )
    output: Path | None = option(
        None,
        "Write the Wasm module, or for WebGPU the kernel document.",
        flag="-o --output",
        type=OUTPUT,
    )

    def dumped_pass(self) -> str | None:
        """The pass whose text is printed; without an option that of WGSL.

        Raises
        ------
        UserError
            When there is no such pass, or ``--changes`` shows it already.
        """
        on_gpu = self.backend == "webgpu"
        if self.changes and (self.passes is not None or self.dump_after is not None):
            raise UserError("--changes shows all passes.", "Leave out --passes and --dump-after.")
        if self.dump_after is not None:
            check_pass(self.dump_after, WGSL_PASSES if on_gpu else PASSES)
        return EMIT if on_gpu and self.dump_after is None and not self.changes else self.dump_after


@verb(
    "compile",
    "Compile one kernel: bytes or text, ms of each pass. Of a MODEL (.onnx) --changes lists "
    f"the graph passes, and --dump-after prints the graph after one.\n\n{HELP}",
)
def compile_kernel(
    importing: ImportOptions = IMPORTING,
    workload: str = argument(metavar="WORKLOAD|MODEL"),
    options: KernelOptions = group(KernelOptions),
    as_json: bool = JSON,
) -> None:
    if not looks_like_spec(workload) and Path(workload).suffix == ".onnx":
        graph_passes(Path(workload), options, importing, as_json)
        return
    candidate, chosen = candidate_of(options.settings), parse_passes(options.passes)
    tier, dumped = tier_of(options.backend, options.tier), options.dumped_pass()
    inspected: dict[str, Any] = {}
    with closing(CompileProcess()) as process:
        compiler = Compiler(process)
        defined, packable = process.define(workload)
        if options.changes:
            device = replace(assumed_device(options.backend, UNKNOWN_GPU), tiers=(tier,))
            found = inspect_kernel(compiler, defined, candidate, device, packable)
            if not as_json:
                say(inspection_text(found).rstrip("\n"))
            inspected = {"changes": inspection_json(found)}
        # The first compilation loads code and reads the program; its time says nothing.
        compiler.compile(defined, candidate, (tier,), chosen)
        result = compiler.compile(defined, candidate, (tier,), chosen)
        if result.error:
            raise CompileError(result.error)
        dump = compiler.dump(defined, candidate, tier, dumped, chosen) if dumped else ""
    if options.output is not None:
        with replacing(options.output) as part:
            part.write_bytes(result.kernels[0].data)
        note(f"wrote {options.output}")
    if as_json:
        document = {"workload": defined.name, **kernel_json(result), "dump": dump}
        print_json({"ok": True, **document, **inspected})
        return
    if dump:
        say(dump.rstrip("\n"))
    if not dumped or options.backend == "webgpu":
        say(times_text(result))


def kernel_json(result: CompileResult) -> dict[str, Any]:
    """A kernel without its bytes."""
    kernel = result.kernels[0]
    return {
        "candidate": settings_of(result.candidate),
        "tier": kernel.tier,
        "ms": result.ms,
        "pass_ms": result.pass_ms,
        "nbytes": len(kernel.data),
        "sha256": kernel.sha256,
        "panels": [list(p) for p in kernel.panels],
        "parallel_extent": kernel.parallel_extent,
    }


def times_text(result: CompileResult) -> str:
    """Milliseconds of each pass, and of all."""
    rows = [*result.pass_ms.items(), ("settings to bytes", result.ms)]
    nbytes = f"{len(result.kernels[0].data)} bytes"
    table = text_table(("", "", ""), [(name, f"{ms:.3f}", "ms") for name, ms in rows], left=(0, 2))
    return f"{table}  {nbytes}"


def graph_passes(
    path: Path, options: KernelOptions, importing: ImportOptions, as_json: bool
) -> None:
    """The changes by the graph passes of an import, or the model after one of them."""
    dumped = options.dump_after
    if (dumped is None) != options.changes:
        raise UserError(
            f"{path.name!r} is a model; kernels are compiled from a workload.",
            "Give --changes for its graph passes, or --dump-after with the name of one.",
        )
    with closing(CompileProcess()) as process:
        if dumped is not None:
            text = process.graph_text(path, dumped, importing)
            document = {"ok": True, "model": path.name, "pass": dumped, "dump": text}
            answer(as_json, document, text.rstrip("\n"))
            return
        with tempfile.TemporaryDirectory() as folder:
            model = process.import_model(path, Path(folder) / "weights.bin", note, importing)
    passes = model.graph.passes
    document = {"ok": True, "model": path.name, "passes": [asdict(p) for p in passes]}
    rows = [(p.name, p.before, "->", p.after, p.unit) for p in passes]
    answer(as_json, document, text_table(("",) * 5, rows, left=(0, 4)))
