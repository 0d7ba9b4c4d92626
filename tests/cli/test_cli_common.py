"""What the verbs share: bad input becomes one sentence."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from nnjit_studio.cli.common import note, say
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.main import cli
from nnjit_studio.cli.running import workbench
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import FILE, OUTPUT, argument, group, option, same, verb
from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import NnjitError, PageError, UserError
from nnjit_studio.model import GivenShapes, ImportOptions
from nnjit_studio.model.feeds import read_arrays
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.tuner.events import Failed


def test_inputs_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.arange(3))
    assert read_arrays(tmp_path / "in.npz")["x"].tolist() == [0, 1, 2]


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
        read_arrays(path)


@pytest.mark.parametrize(
    ("backend", "threads", "said"), [("webgpu", 4, True), ("webgpu", 1, False), ("wasm", 4, False)]
)
def test_threads_beside_a_gpu_are_said_to_be_for_wasm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], backend: str, threads: int, said: bool
) -> None:
    target = TargetOptions("chromium", backend, threads=threads, database=tmp_path / "k.db")
    with workbench(target) as opened:
        assert opened.bench.page.threads == threads
    told = capsys.readouterr().err
    assert ("The 4 threads are for Wasm alone" in told) == said


def test_what_a_model_names_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("step \x1b[2Jname\n\tms")
    note("wrote \x9b31m\r")
    assert capsys.readouterr() == ("step \ufffd[2Jname\n\tms\n", "wrote \ufffd31m\ufffd\n")


def test_a_failed_session_keeps_its_kind_of_error() -> None:
    user = Failed(1.0, UserError("The disk is full.", "Free some space.").to_json()).cause
    assert user.to_json() == UserError("The disk is full.", "Free some space.").to_json()
    bug = Failed(1.0, PageError("The page is gone.").to_json()).cause
    assert type(bug) is NnjitError and bug.kind == "bug"


def given(default: Any, annotation: Any, *arguments: str) -> Any:
    """What a verb gets for a parameter."""
    found = []

    def one(it: Any = default) -> None:
        found.append(it)

    one.__annotations__["it"] = annotation
    result = CliRunner().invoke(verb()(one), arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ImportOptions()),
        (["--no-winograd"], ImportOptions(winograd=False)),
        (["--weights", "f16"], ImportOptions(half_weights=True)),
        (["--dim", "batch=2", "--dim", "a=b=3"], GivenShapes({"batch": 2, "a=b": 3})),
        (["--shape", "x=1,2", "--dim", "n=4"], GivenShapes({"n": 4}, {"x": (1, 2)})),
    ],
)
def test_how_a_model_is_imported(
    arguments: list[str], expected: ImportOptions | GivenShapes
) -> None:
    if isinstance(expected, GivenShapes):
        expected = ImportOptions(expected)
    assert given(IMPORTING, ImportOptions, *arguments) == expected


@pytest.mark.parametrize("wrong", ["batch", "batch=0", "batch=x", "=1"])
def test_a_number_for_a_dimension_is_one(wrong: str) -> None:
    with pytest.raises(AssertionError, match="Invalid value for '--dim'"):
        given(IMPORTING, ImportOptions, "--dim", wrong)


def test_inputs_at_hand_settle_shapes() -> None:
    options = ImportOptions(GivenShapes({"n": 1}), winograd=False)
    assert options.with_hints(None) is options
    hinted = options.with_hints({"x": np.zeros((2, 3))})
    assert hinted == ImportOptions(GivenShapes({"n": 1}, hints={"x": (2, 3)}), winograd=False)


def test_where_kernels_run(tmp_path: Path) -> None:
    assert given(target_options(), TargetOptions) == TargetOptions()
    words = ["--target", "chrome", "--backend", "webgpu", "--gpu", "software", "--threads", "4"]
    words += ["--lab", "revectorize", "--no-sandbox", "--database", str(tmp_path / "k.db")]
    words += ["--listen", "192.168.0.2:8443"]
    whole = TargetOptions(
        target="chrome", backend="webgpu", gpu="software", threads=4, lab="revectorize",
        listen="192.168.0.2:8443", no_sandbox=True, database=tmp_path / "k.db",
    )  # fmt: skip
    assert given(target_options(), TargetOptions, *words) == whole
    some = target_options("threads")
    assert given(some, TargetOptions, "--threads", "4") == TargetOptions(threads=4)
    with pytest.raises(AssertionError, match="No such option '--lab'"):
        given(some, TargetOptions, "--lab", "revectorize")


COMMON = option(1.5, "Of many verbs.")


@dataclass(frozen=True)
class Own:
    """A group of a verb."""

    flag_it: bool = option(False, "A flag.")
    place: Path | None = option(None, type=FILE)  # noqa: RUF009
    common: float = same(COMMON)
    named: str = option("word", "Named otherwise.", flag="-o --other")


def test_a_verb_is_made_of_its_parameters(tmp_path: Path) -> None:
    def example(
        name: str = argument(),
        own: Own = group(Own),  # noqa: B008
        common_2: float = COMMON,
    ) -> None:
        """Try it."""
        told.append((name, own, common_2))

    told: list[object] = []
    example.__annotations__.update(name=str, own=Own, common_2=float)
    command = verb("try")(example)
    words = ["n", "--flag-it", "--place", str(tmp_path), "-o", "x", "--common-2", "2"]
    assert CliRunner().invoke(command, words[:2]).exit_code == 0
    assert "is a directory" in CliRunner().invoke(command, words).output
    assert told == [("n", Own(True, None, 1.5, "word"), 1.5)] == [("n", Own(flag_it=True), 1.5)]
    shown = CliRunner().invoke(command, ["--help"]).output
    assert [line.split()[0] for line in shown.splitlines() if line.startswith("  -")] == [
        "--flag-it", "--place", "--common", "-o,", "--common-2", "--help",
    ]  # fmt: skip
    assert "Try it." in shown and "[default: 1.5]" in shown and "[default: word]" in shown


@pytest.mark.parametrize("place", ["a file/x.zip", "a file/new/x.zip", "shut/x.zip", "."])
def test_a_file_that_cannot_be_written_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "a file").touch()
    (tmp_path / "shut").mkdir()
    real = os.access  # root may write anywhere
    monkeypatch.setattr(os, "access", lambda p, mode: Path(p).name != "shut" and real(p, mode))
    model = str(tmp_path / "there is none.onnx")
    for words in (
        ["export", model, "-o"], ["run", model, "--outputs"], ["tune", model, "--report"],
        ["tune", model, "--plot"], ["sample", "minilm", "-o"],
    ):  # fmt: skip
        told = CliRunner().invoke(cli, [*words, str(tmp_path / place)])
        assert told.exit_code == 2, (words, told.output)
        assert "folder" in told.output or "is a directory" in told.output


def test_a_run_of_which_nothing_is_kept_is_refused_before_it(tmp_path: Path) -> None:
    told = CliRunner().invoke(cli, ["run", str(tmp_path / "m.onnx")])
    assert "Give --outputs FILE.npz, or --check." in told.output + str(told.exception)


def test_a_file_of_its_own_right_is_judged_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, pipe = tmp_path / "kept.zip", tmp_path / "pipe"
    kept.touch()
    os.mkfifo(pipe)
    # As for a user who is not root: a file that is for reading, a pipe in a folder of others.
    monkeypatch.setattr(os, "access", lambda p, mode: Path(p) not in (kept, tmp_path))
    told = CliRunner().invoke(cli, ["sample", "minilm", "-o", str(kept)])
    assert told.exit_code == 2 and "is not writable" in told.output
    assert OUTPUT.convert(str(pipe), None, None) == pipe


def test_a_folder_that_is_not_there_yet_is_no_mistake(tmp_path: Path) -> None:
    output = tmp_path / "new" / "one" / "b.zip"
    assert OUTPUT.convert(str(output), None, None) == output and not output.parent.exists()


def test_links_that_lead_to_one_another_are_told_before_the_work(tmp_path: Path) -> None:
    link = tmp_path / "link.wasm"
    link.symlink_to(link)
    told = CliRunner().invoke(cli, ["offload", "m.wasm", "-o", str(link)])
    assert told.exit_code == 2 and "Too many levels" in told.output


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/null"])
def test_words_leave_stdout_to_a_file_that_is_written_there(
    capfd: pytest.CaptureFixture[str], name: str
) -> None:
    written = option(None, flag="-o", type=OUTPUT)

    @verb()
    def toy(output: Path | None = written) -> None:
        say("words")

    toy.main(["-o", name], standalone_mode=False)
    told = capfd.readouterr()
    assert (told.out, told.err) == (("", "words\n") if name == "/dev/stdout" else ("words\n", ""))


def test_a_wasm_file_is_not_tuned(tmp_path: Path) -> None:
    told = CliRunner().invoke(cli, ["studio", "m.wasm", "--tune", "1"])
    assert isinstance(told.exception, UserError) and "is a Wasm file" in told.exception.error


def test_an_empty_list_of_records_says_so(tmp_path: Path) -> None:
    database = tmp_path / "k.db"
    KernelDatabase.open(database).close()
    for words, said in (([], "no records yet"), (["--workload", "matmul"], "No record matches")):
        done = CliRunner().invoke(cli, ["db", "list", *words, "--database", str(database)])
        assert done.exit_code == 0 and said in done.stdout, done.output
