"""The compile process: results, limits, and life after a crash."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from onnx_models import mlp

from nnjit_studio.compiler.process import codec, worker
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.compiler.process.handlers import kernels
from nnjit_studio.compiler.process.handlers.registry import State, handler_of
from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.compiler.process.table import OPERATIONS
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.errors import BugError, CompileError, ModelError, UserError
from nnjit_studio.records import TIERS
from nnjit_studio.records.candidate import Candidate

CANDIDATE = Candidate(8, 4, 2, 8, 4, 6)


@pytest.fixture(scope="module")
def process() -> Iterator[CompileProcess]:
    process = CompileProcess()
    yield process
    process.close()


@pytest.fixture(scope="module")
def model(process: CompileProcess, tmp_path_factory: pytest.TempPathFactory) -> ImportedModel:
    folder = tmp_path_factory.mktemp("model")
    return process.import_model(mlp(folder / "mlp.onnx"), folder / "w.bin")


def test_a_file_is_read_while_the_importer_loads(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "endless.py").write_text("import time\nwhile True:\n    time.sleep(1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(worker, "IMPORTER", "endless")
    ours, theirs = multiprocessing.Pipe()
    # A fork has all that this worker of the tests has mapped; how much depends on the machine.
    served = theirs, str(tmp_path / "chatter"), 2**46, True
    process = multiprocessing.get_context("fork").Process(target=worker.serve, args=served)
    process.start()
    theirs.close()
    try:
        codec.send(ours, "survey", (mlp(tmp_path / "mlp.onnx"),))
        assert ours.poll(120) and codec.receive(ours)[0] == "reply"
    finally:
        process.kill()
        process.join()


def test_reading_a_file_loads_no_tvm() -> None:
    program = (
        "import sys; from nnjit_studio.compiler.process import worker; "
        "from nnjit_studio.compiler.process.handlers import reading; print('tvm' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "False\n"


def test_a_candidate_in_both_tiers(process: CompileProcess, model: ImportedModel) -> None:
    result = Compiler(process).compile(model.workloads[0], CANDIDATE, TIERS)
    assert result.error == ""
    assert [k.tier for k in result.kernels] == list(TIERS)
    assert all(k.data.startswith(b"\0asm") for k in result.kernels)
    assert result.kernels[0].sha256 != result.kernels[1].sha256
    assert result.ms > 0
    again = Compiler(process).compile(model.workloads[0], CANDIDATE, TIERS)
    assert [k.data for k in again.kernels] == [k.data for k in result.kernels]


def test_an_installed_pytorch_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TVM would: its libraries alone can map more memory than the process may have."""
    package, loaded = tmp_path / "site" / "torch", tmp_path / "loaded"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"open({str(loaded)!r}, 'w').close()\n__version__ = '9'\n")
    monkeypatch.syspath_prepend(str(package.parent))
    process = CompileProcess()
    try:
        process.import_model(mlp(tmp_path / "mlp.onnx"), tmp_path / "w.bin")
    finally:
        process.close()
    assert not loaded.exists()


def test_a_package_that_does_not_load_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "wasmtime"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('no library for this machine')")
    monkeypatch.syspath_prepend(str(package.parent))
    process = CompileProcess()
    try:
        with pytest.raises(UserError, match="does not load: no library") as caught:
            process.import_model(mlp(tmp_path / "mlp.onnx"), tmp_path / "w.bin")
        assert "Install the Studio again" in caught.value.hint
    finally:
        process.close()


def test_an_impossible_candidate_is_a_result(process: CompileProcess, model: ImportedModel) -> None:
    softmax = model.workloads[2]
    assert "softmax" in softmax.kind
    assert Compiler(process).compile(softmax, CANDIDATE, TIERS).error != ""


def test_fixture_travels(process: CompileProcess, model: ImportedModel) -> None:
    fixture = Compiler(process).fixture(model.workloads[0])
    roles = [a.role for a in fixture.args]
    assert roles[:4] == ["input", "input", "input", "output"]
    assert fixture.args[1].pack == (6, 10)
    assert fixture.expected[0].shape == (50,)
    assert (fixture.bound[0] > 0).all()
    assert Compiler(process).fixture(model.workloads[0]) is fixture, "the last one is remembered"


def test_a_crash_costs_one_job(process: CompileProcess, model: ImportedModel) -> None:
    assert process._child.process is not None and process._child.process.pid is not None
    os.kill(process._child.process.pid, signal.SIGSEGV)
    process._child.process.join(60)
    first = Compiler(process).compile(model.workloads[0], CANDIDATE, TIERS)
    assert first.error == ""


def test_kill_while_busy_fails_that_job_alone(
    process: CompileProcess, model: ImportedModel, tmp_path: Path
) -> None:
    path = mlp(tmp_path / "late.onnx", seed=5)
    with pytest.raises(ModelError, match="ended"):
        process.import_model(path, tmp_path / "w.bin", lambda phase: process.kill())
    assert Compiler(process).compile(model.workloads[0], None, TIERS).error == ""


def test_ending_a_reference_leaves_what_others_asked_for(
    process: CompileProcess, model: ImportedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ended = mlp(tmp_path / "other.onnx", seed=5), []
    process.import_model(
        path, tmp_path / "w.bin", lambda phase: ended.append(process.kill_reference())
    )
    assert ended and not any(ended) and not process.kill_reference(), "it is no reference"
    key, exchange = model.workloads[0].key, process._references._exchange
    kernel = process._child.process

    def killed(pipe: Any, name: str, *given: Any) -> Any:
        if name == "seeded_fixture":
            assert not process.kill_reference("another workload's")
            assert process.kill_reference(key)
        return exchange(pipe, name, *given)

    monkeypatch.setattr(process._references, "_exchange", killed)
    with pytest.raises(CompileError, match="died"):
        process.seeded_fixture(key)
    assert process._child.process is kernel and kernel is not None and kernel.is_alive()


def test_kernels_do_not_wait_for_a_reference(
    process: CompileProcess, model: ImportedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, made = process._references._exchange, []

    def slow(pipe: Any, name: str, *given: Any) -> Any:
        if name == "seeded_fixture":
            made.append(Compiler(process).compile(model.workloads[0], CANDIDATE, TIERS))
        return exchange(pipe, name, *given)

    monkeypatch.setattr(process._references, "_exchange", slow)
    assert len(process.seeded_fixture(model.workloads[0].key).expected) == 1
    assert [each.error for each in made] == [""]


def test_late_job_is_killed(
    process: CompileProcess, model: ImportedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.start()
    child = process._child.process
    assert child is not None and child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)  # it will not answer, however fast it is
    row = replace(OPERATIONS["compile_kernel"], timeout_s=0.0)
    monkeypatch.setitem(OPERATIONS, "compile_kernel", row)
    result = Compiler(process).compile(model.workloads[0], CANDIDATE, TIERS)
    assert "no answer within 0 s" in result.error


def test_a_reference_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "SIGN_S", 0.0)
    told: list[str] = []
    spec = "matmul:600x8x700:f32"
    state = State(told.append, lambda programs: None, (), {spec: program_for(spec)})
    found = kernels.seeded_fixture(state, spec)
    assert len(found.expected) == 1 and len(told) > 3


def test_errors_keep_their_class_and_sentence(process: CompileProcess, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="There is no file"):
        process.import_model(tmp_path / "absent.onnx", tmp_path / "w.bin")


def test_a_workload_from_its_spelling(process: CompileProcess, tmp_path: Path) -> None:
    workload, packable = process.define("matmul:6x8x16:f32+bias")
    assert (workload.name, packable) == ("matmul:6x8x16:f32+bias", True)
    assert process.define("batch_matmul:2x6x8x16:f32")[1] is False
    process.kill()
    assert Compiler(process).compile(workload, CANDIDATE, TIERS).error == ""

    model = process.define_model("matmul:6x8x16:f32+bias", tmp_path / "w.bin")
    assert model.workloads == (workload,)
    assert model.packable == {workload.key}
    assert [p.spec.name for p in model.plan.inputs] == ["in0"]
    assert model.weights.stat().st_size == model.plan.weights_bytes > 0
    with pytest.raises(UserError, match="kind 'pool'"):
        process.define("pool:1x2:f32")


def test_an_interrupt_from_the_terminal_costs_no_job(
    process: CompileProcess, model: ImportedModel, tmp_path: Path
) -> None:
    process.start()
    before = process._child.process
    assert before is not None and before.pid is not None
    number = before.pid
    # At every phase of an import, so also in the middle of a job.
    process.import_model(
        mlp(tmp_path / "m.onnx"), tmp_path / "w.bin", lambda phase: os.kill(number, signal.SIGINT)
    )
    assert Compiler(process).compile(model.workloads[0], CANDIDATE, TIERS).error == ""
    assert process._child.process is before and before.is_alive()


@pytest.mark.parametrize("name", OPERATIONS)
def test_both_ends_agree_on_every_operation(name: str) -> None:
    row = OPERATIONS[name]
    types = get_type_hints(handler_of(row))
    assert list({"state": State, **row.types}.items()) == list(types.items())


def test_a_request_of_other_types_is_named(process: CompileProcess) -> None:
    with pytest.raises(BugError, match="no request of native_tokens: Expected `int`"):
        process.native_tokens(["one"])  # type: ignore[list-item]


def test_a_caller_that_leaves_early_costs_the_next_job_nothing(
    process: CompileProcess, model: ImportedModel, tmp_path: Path
) -> None:
    def leave(phase: str) -> None:
        raise UserError("Cancelled.")

    with pytest.raises(UserError, match="Cancelled"):
        process.import_model(mlp(tmp_path / "m.onnx"), tmp_path / "w.bin", leave)
    result = Compiler(process).compile(model.workloads[0], CANDIDATE, TIERS)
    assert (result.error, len(result.kernels)) == ("", len(TIERS))


def test_several_sizes_have_the_memory_of_a_bundle() -> None:
    """A Swin Transformer of 106 MiB at three sizes took more than one import may."""
    several, any_size = (OPERATIONS[n].imports for n in ("import_sizes", "compile_any_size"))
    assert several == any_size > 1
