"""``nnjit turbo``: a faster module beside somebody's own."""

from __future__ import annotations

from pathlib import Path

import click

from nnjit_studio.cli.common import INPUTS, JSON, answer, note
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import COUNT, FILE, OUTPUT, argument, option, verb
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.pages.opening import in_browser
from nnjit_studio.errors import UserError
from nnjit_studio.foreign_wasm.turbo.gate.gate import LEAST_GAIN, Settings
from nnjit_studio.foreign_wasm.turbo.job import Turbo, TurboOptions
from nnjit_studio.foreign_wasm.turbo.job import turbo as make_turbo
from nnjit_studio.foreign_wasm.turbo.models import differences, run_model, runtime_of
from nnjit_studio.model.feeds import Feeds


@verb()
def turbo(
    file: Path = argument(type=click.Path(exists=True, dir_okay=False, path_type=Path)),
    output: Path | None = option(
        None, "By default NAME.turbo.wasm beside FILE.", flag="-o --output", type=OUTPUT
    ),
    fma: bool = option(False, "Also write a module with fused multiply-adds (other rounding)."),
    kernels: bool = option(
        False, "Also replace functions that do what a known kernel does by kernels of our own."
    ),
    target: str = option("chromium", "Where it is measured: node, a browser, or its path."),
    registers: int | None = option(
        None, "Vector registers to plan for; by default the target's.", type=COUNT
    ),
    least_gain: float = option(
        LEAST_GAIN, "Keep loops that are so many times as fast.", type=click.FloatRange(0.9)
    ),
    seed: int = option(1, "Of random memory and arguments."),
    no_sandbox: bool = OPTIONS["no_sandbox"],
    check: Path | None = option(
        None, "Run this model in ONNX Runtime Web with both modules and compare.", type=FILE
    ),
    inputs: Feeds | None = INPUTS,
    as_json: bool = JSON,
) -> None:
    """Re-schedule the vector loops of FILE, a .wasm, and keep those that are measured faster.

    Results stay the same bit for bit; with --fma there is a second module whose results are not.
    A loader chooses between them; a certificate says what was changed on what evidence.
    """
    if (check is None) != (inputs is None):
        raise UserError("--check and --inputs go together.", "Give both or none.")
    runtime = runtime_of(file) if check else None
    settings = Settings(seed=seed, least_gain=least_gain)
    options = TurboOptions(fma, kernels, target, registers, no_sandbox, settings)
    made = make_turbo(file, output, options, note)
    checked: dict[str, dict[str, float]] = {}
    if check and runtime and inputs:
        browser = "chromium" if target == "node" else target
        builds = {"original": file, **made.modules}
        run = run_model(
            runtime, builds, check, inputs, in_browser(browsers.find(browser), no_sandbox)
        )
        checked = {build: differences(run, build, "original") for build in made.modules}
    answer(as_json, document(made, checked), "\n".join([text(made), *_told(checked)]))
    if any(checked.get("plain", {}).values()):
        raise UserError(
            f"{made.outputs.plain.name} gives {check} other outputs than {file.name}.",
            "Do not use it, and please report this with the module.",
        )


def _told(checked: dict[str, dict[str, float]]) -> list[str]:
    return [
        f"{build}, output {name}: " + (f"differs by {error:.1e}" if error else "bit-identical")
        for build, outputs in checked.items()
        for name, error in outputs.items()
    ]


def document(made: Turbo, checked: dict[str, dict[str, float]]) -> dict[str, object]:
    return {
        "ok": True,
        "out": str(made.outputs.plain),
        "out_relaxed": str(made.outputs.relaxed) if made.relaxed else None,
        "loader": str(made.outputs.loader),
        "certificate": str(made.outputs.certificate),
        "licence": made.certificate["licence"],
        "functions": made.certificate["functions"],
        "kernels": made.certificate.get("kernels"),
        "check": checked or None,
    }


def text(made: Turbo) -> str:
    """For a person: the functions, the files, the licence."""
    lines = []
    for row in made.certificate["functions"]:
        gain = f"{row['gain']:.2f}x" if row["gain"] else "not measured"
        kept = "kept" if row["kept"] else "left as it was"
        lines.append(f"function {row['index']:>6}  {row['pass']:<8}  {gain:>12}  {kept}")
    lines += [
        f"function {row['index']:>6}  {row['kernel']}, tile {row['tile']}  "
        f"{row['gain']['median']:.2f}x"
        for row in made.certificate.get("kernels", ())
        if row["passed"]
    ]
    files = [made.outputs.plain, *([made.outputs.relaxed] if made.relaxed else [])]
    lines.append(f"wrote {', '.join(map(str, files))}, {made.outputs.loader.name} and ")
    lines[-1] += made.outputs.certificate.name
    lines.append(made.licence)
    return "\n".join(lines)
