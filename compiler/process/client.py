"""The compile process for the rooms that use it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.compiler.process.child import Child
from nnjit_studio.compiler.process.operations import Operations
from nnjit_studio.compiler.process.results import AnySizeModel
from nnjit_studio.errors import CompileError
from nnjit_studio.model import Workload
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.records import Fixture, Kernel
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.records.size_tuning import KnownSettings
from nnjit_studio.support.phases import OnPhase, quiet

MEMORY_BYTES = 16 * 2**30
KEPT_FIXTURE_BYTES = 64 * 2**20
"""A larger fixture is computed anew each time."""


class CompileProcess(Operations):
    """Imports models and makes kernels, for any number of users. Thread-safe, one job at a time.

    References are computed by a second process beside it, from the first one on: kernels do not
    wait for them, and ending one costs nothing else.

    A job that is late or dies costs that job alone: the process is started
    anew and gets the model's programs back. Methods on a stranger's model raise
    ``ModelError`` or ``UserError``, also when the job is too slow, too large, or
    kills its process; methods on kernels raise ``CompileError``.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._child = Child(memory_bytes)
        self._references = Child(memory_bytes)
        self._fixture: Fixture | None = None

    def start(self) -> None:
        """Start the process, and have it load the importer, ahead of its first import; harmless
        when it runs.
        """
        self._child.start()

    def close(self) -> None:
        self._child.close()
        self._references.close()

    def kill(self) -> None:
        """End whatever runs; a waiting caller gets a failed result. For any thread."""
        self._child.kill()
        self._references.kill()

    def kill_reference(self, workload: str = "") -> bool:
        """End the reference that is computed, of one workload where its key is given; whether one
        was. Others' jobs go on.
        """
        running = self._references.running
        computed = running is not None and workload in ("", *running[1])
        if computed:
            self._references.kill()
        return computed

    def call(self, name: str, arguments: tuple[Any, ...], on_phase: OnPhase = quiet) -> Any:
        """Have an operation done, by the process that it is for."""
        if name != "seeded_fixture":
            return self._child.call(name, arguments, on_phase)
        known = self._child.programs
        of = {key: known[key] for key in arguments if key in known}
        return self._references.call(name, arguments, on_phase, of)

    def import_any_size(
        self,
        path: Path,
        weights: Path,
        inputs: Mapping[str, NDArray[Any]],
        half_weights: bool = False,
        on_phase: OnPhase = quiet,
        guessed: bool = False,
        known: KnownSettings = KnownSettings(),  # noqa: B008
        webgpu: bool = False,
    ) -> AnySizeModel | None:
        """Import a model and compile it for any size; None where all its sizes are fixed.

        Inputs that were ``guessed`` are given up where the model does not run on them;
        ``known`` has the settings that tuning found. See
        :func:`nnjit_studio.compiler.any_size.imports.import_any`.
        """
        found = self.compile_any_size(
            path, weights, inputs, half_weights, on_phase, guessed, known, webgpu
        )
        if found is None:
            return None
        plan = OpenPlan.from_json(json.loads(found.plan))
        kernels = tuple(code.kernel(workload, None) for workload, code in found.code)
        return AnySizeModel(plan, kernels, weights, found.notes)

    def fixture(self, workload: Workload) -> Fixture:
        """Seeded inputs and the float64 reference of a workload; the last one is remembered.

        Raises
        ------
        CompileError
            When the reference cannot be computed.
        """
        kept = self._fixture
        if kept is not None and kept.workload == workload.key:
            return kept
        try:
            found = self.seeded_fixture(workload.key)
        except CompileError as e:
            raise CompileError(f"No reference for {workload.name}: {e.error}") from None
        nbytes = sum(len(a.data or b"") for a in found.args)
        nbytes += sum(a.nbytes for a in (*found.expected, *found.bound))
        self._fixture = found if nbytes <= KEPT_FIXTURE_BYTES else None
        return found

    def variants(self, tiers: Sequence[str]) -> tuple[Workload, list[tuple[str, str, Kernel]]]:
        """The common matmul with one primitive changed at a time.

        Returns
        -------
        tuple
            The workload, and primitive, setting and kernel of each variant;
            the first, without a name, is what the others differ from.
        """
        workload, made = self.matmul_variants(tiers)
        return workload, [
            (v.primitive, v.setting, v.code.kernel(workload.key, parse_candidate(v.settings)))
            for v in made
        ]
