"""Jobs on single kernels: from a workload's spelling to bytes, texts and fixtures."""

from __future__ import annotations

import hashlib
import pickle
import tempfile
import time
from pathlib import Path

from nnjit_studio.compiler.ir.program_data import program_from_text, text_of_program
from nnjit_studio.compiler.oracle.fixture import make_fixture
from nnjit_studio.compiler.pipeline.passes import Artifact
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES
from nnjit_studio.compiler.process.handlers.registry import State, handles
from nnjit_studio.compiler.process.inspection import in_tier, kernel_texts
from nnjit_studio.compiler.process.operations import (
    AdoptRequest,
    Code,
    Compiled,
    CompileRequest,
    ConventionalRequest,
    Defined,
    DefineRequest,
    FixtureRequest,
    ProgramRequest,
    RestoreRequest,
    Texts,
    TextsRequest,
)
from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.compiler.recognize.subject import packed_weight
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.records import Fixture
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import candidate_of

SIGN_S = 1.0
"""Between two signs of life of a job that takes long."""


def code_of(tier: str, artifact: Artifact) -> Code:
    digest = hashlib.sha256(artifact.data).hexdigest()
    return Code(tier, artifact.data, digest, artifact.panels, artifact.parallel_extent)


@handles(RestoreRequest)
def restore(state: State, request: RestoreRequest) -> None:
    state.programs.update({k: pickle.loads(data) for k, data in request.programs.items()})


@handles(DefineRequest)
def define(state: State, request: DefineRequest) -> Defined:
    program = program_for(request.spec)
    subject = subject_of(program)
    workload = workload_for(program, subject)
    packable = packed_weight(subject) is not None
    model = None
    if request.weights is not None:
        from nnjit_studio.compiler.importer.model import model_of  # loads TVM

        built = model_of(request.spec, program, request.weights)
        packed = frozenset([workload.key] if packable else ())
        model = ImportedModel(built.graph, (workload,), built.plan, packed, request.weights)
    return Defined(state.keep({workload.key: program}), workload, packable, model)


@handles(AdoptRequest)
def adopt(state: State, request: AdoptRequest) -> Defined:
    program = program_from_text(request.text)
    subject = subject_of(program)
    workload = workload_for(program, subject)
    packable = packed_weight(subject) is not None
    return Defined(state.keep({workload.key: program}), workload, packable, None)


@handles(ProgramRequest)
def program_text(state: State, request: ProgramRequest) -> str:
    return text_of_program(state.programs[request.workload])


@handles(CompileRequest)
def compile_kernel(state: State, request: CompileRequest) -> Compiled:
    candidate, passes = candidate_of(request.settings), request.passes
    if passes is None:
        passes = tuple(p for p in OPTIONAL_PASSES if p not in request.passes_off)
    program, tiers = state.programs[request.workload], request.tiers
    started = time.perf_counter()
    artifacts = [in_tier(program, candidate, tier, passes)(request.dump_after) for tier in tiers]
    codes = tuple(code_of(tier, made) for tier, made in zip(tiers, artifacts, strict=True))
    ms = (time.perf_counter() - started) * 1e3 / len(tiers)
    pass_ms: dict[str, float] = {}
    for artifact in artifacts:
        for name, spent in artifact.pass_ms.items():
            pass_ms[name] = pass_ms.get(name, 0.0) + spent / len(tiers)
    return Compiled(codes, ms, pass_ms, tuple(made.dump for made in artifacts))


@handles(TextsRequest)
def texts(state: State, request: TextsRequest) -> Texts:
    passes = tuple(p for p in OPTIONAL_PASSES if p not in request.passes_off)
    program, candidate = state.programs[request.workload], candidate_of(request.settings)
    found = kernel_texts(request.workload, program, candidate, request.tier, passes)
    kernel = found.kernel
    code = Code(kernel.tier, kernel.data, kernel.sha256, kernel.panels, kernel.parallel_extent)
    return Texts(found.program, found.buffers, found.moved_bytes, found.passes, code)


@handles(FixtureRequest)
def fixture(state: State, request: FixtureRequest) -> Fixture:
    told_s = time.monotonic()

    def got_on() -> None:
        """Have the parent wait for the next block: on a busy machine all of them take long."""
        nonlocal told_s
        if time.monotonic() - told_s >= SIGN_S:
            state.phase("Computing the reference")
            told_s = time.monotonic()

    return make_fixture(request.workload, state.programs[request.workload], got_on=got_on)


@handles(ConventionalRequest)
def conventional(state: State, request: ConventionalRequest) -> dict[str, float]:
    from nnjit_studio.compiler.tvm_adapter.llvm_wasm import build_ms  # loads TVM

    candidate = Candidate.parse(request.settings)
    with tempfile.TemporaryDirectory() as folder:
        return build_ms(*request.sizes, candidate, Path(folder))
