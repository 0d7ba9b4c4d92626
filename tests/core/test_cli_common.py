"""What the verbs share: bad input becomes one sentence."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from nnjit_studio.cli.common import compile_process, load_inputs, note, say, workbench
from nnjit_studio.cli.import_options import shape_options
from nnjit_studio.cli.tune import failure
from nnjit_studio.errors import NnjitError, PageError, UserError


def test_inputs_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.arange(3))
    arrays = load_inputs(tmp_path / "in.npz")
    assert arrays is not None and arrays["x"].tolist() == [0, 1, 2]
    assert load_inputs(None) is None


@pytest.mark.parametrize("case", ["one array", "cut", "empty", "changed", "objects", "text"])
def test_inputs_that_are_no_arrays_are_refused(tmp_path: Path, case: str) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, x=np.arange(100))
    whole = path.read_bytes()
    if case == "one array":
        with path.open("wb") as file:
            np.save(file, np.arange(3))
    elif case == "objects":
        np.savez(path, x=np.array([{}], dtype=object))
    else:
        changed = whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]
        path.write_bytes({"cut": whole[:200], "empty": b"", "changed": changed, "text": b"x"}[case])
    with pytest.raises(UserError, match=r"in\.npz"):
        load_inputs(path)


@pytest.mark.parametrize(
    ("backend", "threads", "said"), [("webgpu", 4, True), ("webgpu", 1, False), ("wasm", 4, False)]
)
def test_threads_beside_a_gpu_are_said_to_be_for_wasm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], backend: str, threads: int, said: bool
) -> None:
    with workbench("chromium", tmp_path / "k.db", False, threads, backend=backend) as (bench, _):
        assert bench.page.threads == threads
    told = capsys.readouterr().err
    assert ("The 4 threads are for Wasm alone" in told) == said


def test_what_a_model_names_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("step \x1b[2Jname\n\tms")
    note("wrote \x9b31m\r")
    assert capsys.readouterr() == ("step \ufffd[2Jname\n\tms\n", "wrote \ufffd31m\ufffd\n")


def test_a_failed_session_keeps_its_kind_of_error() -> None:
    user = failure(UserError("The disk is full.", "Free some space.").to_json())
    assert user.to_json() == UserError("The disk is full.", "Free some space.").to_json()
    bug = failure(PageError("The page is gone.").to_json())
    assert type(bug) is NnjitError and bug.kind == "bug"


@pytest.mark.parametrize(
    ("arguments", "tiles", "halves"),
    [([], True, False), (["--no-winograd"], False, False), (["--weights", "f16"], True, True)],
)
def test_how_a_model_is_imported(arguments: list[str], tiles: bool, halves: bool) -> None:
    @click.command()
    @shape_options
    def verb() -> None:
        with compile_process() as compiler:
            found.append((compiler.winograd, compiler.half_weights))

    found: list[tuple[bool, bool]] = []
    assert CliRunner().invoke(verb, arguments, catch_exceptions=False).exit_code == 0
    assert found == [(tiles, halves)]
