"""Jobs on single kernels: from a workload's spelling to bytes, texts and fixtures."""

from __future__ import annotations

import hashlib
import pickle
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from nnjit_studio.compiler.any_size.kernels import families
from nnjit_studio.compiler.ir.program_data import program_from_text, text_of_program
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.oracle.fixture import make_fixture
from nnjit_studio.compiler.pipeline.passes import Artifact
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES
from nnjit_studio.compiler.process import inspection
from nnjit_studio.compiler.process.handlers.registry import State
from nnjit_studio.compiler.process.operations import Code, Compiled, Texts
from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.compiler.recognize.subject import packed_weight
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.model import Workload
from nnjit_studio.records import Fixture
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import candidate_of
from nnjit_studio.records.size_tuning import tile_of

SIGN_S = 1.0
"""Between two signs of life of a job that takes long."""


def code_of(tier: str, artifact: Artifact) -> Code:
    digest = hashlib.sha256(artifact.data).hexdigest()
    return Code(tier, artifact.data, digest, artifact.panels, artifact.parallel_extent)


def restore(state: State, programs: Mapping[str, bytes]) -> None:
    state.programs.update({k: pickle.loads(data) for k, data in programs.items()})


def define(state: State, spec: str) -> tuple[Workload, bool]:
    return _kept(state, program_for(spec))


def define_model(state: State, spec: str, weights: Path) -> ImportedModel:
    from nnjit_studio.compiler.importer.model import model_of  # loads TVM

    program = program_for(spec)
    workload, packable = _kept(state, program)
    built = model_of(spec, program, weights)
    packed = frozenset([workload.key] if packable else ())
    return ImportedModel(built.graph, (workload,), built.plan, packed, weights)


def adopt(state: State, text: str) -> tuple[Workload, bool]:
    return _kept(state, program_from_text(text))


def _kept(state: State, program: Program) -> tuple[Workload, bool]:
    """The workload of a program, which is kept, and whether its B is packable."""
    subject = subject_of(program)
    workload = workload_for(program, subject)
    state.keep({workload.key: program})
    return workload, packed_weight(subject) is not None


def program(state: State, workload: Workload) -> str:
    return text_of_program(state.programs[workload.key])


def compile_kernel(
    state: State,
    workload: str,
    settings: str,
    tiers: Sequence[str],
    passes: Sequence[str] | None,
    passes_off: Sequence[str],
    dump_after: str | None,
) -> Compiled:
    candidate, program = candidate_of(settings), state.programs[workload]
    if passes is None:
        passes = _without(passes_off)
    started = time.perf_counter()
    artifacts = [inspection.in_tier(program, candidate, tier, passes)(dump_after) for tier in tiers]
    codes = tuple(code_of(tier, made) for tier, made in zip(tiers, artifacts, strict=True))
    ms = (time.perf_counter() - started) * 1e3 / len(tiers)
    pass_ms: dict[str, float] = {}
    for artifact in artifacts:
        for name, spent in artifact.pass_ms.items():
            pass_ms[name] = pass_ms.get(name, 0.0) + spent / len(tiers)
    return Compiled(codes, ms, pass_ms, tuple(made.dump for made in artifacts))


def settings_at(state: State, workloads: Sequence[str], settings: str) -> tuple[str, ...]:
    programs = [state.programs[key] for key in workloads]
    return tuple(map(str, families.settings_at(programs, tile_of(settings))))


def kernel_texts(
    state: State, workload: str, settings: str, tier: str, passes_off: Sequence[str]
) -> Texts:
    program, candidate = state.programs[workload], candidate_of(settings)
    found = inspection.kernel_texts(workload, program, candidate, tier, _without(passes_off))
    code = Code.of(found.kernel)
    return Texts(found.program, found.buffers, found.moved_bytes, found.passes, code)


def _without(passes_off: Sequence[str]) -> tuple[str, ...]:
    return tuple(p for p in OPTIONAL_PASSES if p not in passes_off)


def seeded_fixture(state: State, workload: str) -> Fixture:
    told_s = time.monotonic()

    def got_on() -> None:
        """Have the parent wait for the next block: on a busy machine all of them take long."""
        nonlocal told_s
        if time.monotonic() - told_s >= SIGN_S:
            state.phase("Computing the reference")
            told_s = time.monotonic()

    return make_fixture(workload, state.programs[workload], got_on=got_on)


def conventional_ms(state: State, workload: Workload, candidate: Candidate) -> dict[str, float]:
    from nnjit_studio.compiler.tvm_adapter.llvm_wasm import build_ms  # loads TVM

    batch, m, k, n = [1, *workload.dims][-4:]
    with tempfile.TemporaryDirectory() as folder:
        return build_ms(batch, m, k, n, candidate, Path(folder))
