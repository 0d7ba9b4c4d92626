"""The verb ``doctor``: this machine, its browsers, and what kernels may expect of it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from nnjit_studio.cli.common import JSON, answer, database_path, note
from nnjit_studio.cli.running import workbench
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import option, verb
from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.measured import MeasuredDevice, with_measured
from nnjit_studio.doctor.device_report import device_json, device_text
from nnjit_studio.doctor.examination import examine
from nnjit_studio.doctor.report import as_text, report_json
from nnjit_studio.engine.browsers.sandbox import Sandbox
from nnjit_studio.errors import UserError
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.workbench import jobs


@verb()
def doctor(
    microbench: bool = option(
        False, "Measure the device for some seconds, and store the results for later sessions."
    ),
    gpu: str = option(
        "hardware",
        "The adapter that browsers are started for.",
        type=click.Choice(["hardware", "software"]),
    ),
    target: TargetOptions = target_options("target", "no_sandbox", "database"),
    as_json: bool = JSON,
) -> None:
    """Report what this machine and its browsers can do."""
    if microbench:
        measure_device(target, as_json)
        return
    if not target.embedded:
        raise UserError(
            "The doctor examines the embedded engine.", "Add --microbench to measure in a browser."
        )
    known = database_path(target.database)
    seen, confined = list[Sandbox](), list[tuple[str, ...]]()

    def probe() -> DeviceProfile:
        with tempfile.TemporaryDirectory() as folder:
            aside = TargetOptions(no_sandbox=target.no_sandbox, database=Path(folder) / "k.db")
            with workbench(aside) as opened:
                device = opened.run(opened.bench.page.connect)
                seen.append(opened.bench.page.sandbox)
                confined.append(opened.bench.page.process.confinement())
        return with_measured(device, stored_device(known, device))

    found = examine(
        probe,
        lambda: seen[0] if seen else None,
        known.parent,
        no_sandbox=target.no_sandbox,
        gpu=gpu,
        confinement=lambda: confined[0] if confined else None,
    )
    document = report_json(found)
    answer(as_json, document, as_text(found))
    if not document["ok"]:
        sys.exit(1)


def stored_device(path: Path, device: DeviceProfile) -> MeasuredDevice | None:
    """The device as a database has it; None, and a line for people, where it cannot be read."""
    try:
        with KernelDatabase.open_for_reading(path) as database:
            return database.device(device.device_id, device.target)
    except UserError as e:
        note(str(e))
        return None


def measure_device(target: TargetOptions, as_json: bool) -> None:
    """Run the device experiments, store and print what they find."""
    with workbench(target) as opened:
        bench = opened.bench
        measured = opened.run(lambda: jobs.measure_device(bench.model, note))
        device, fixed = bench.page.connect(), bench.page.fixed_primitives()
    document = {"ok": True, **device_json(measured, device, fixed)}
    answer(as_json, document, device_text(measured, device, fixed))
