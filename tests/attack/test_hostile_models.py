"""A stranger's model costs neither minutes nor gigabytes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from hostile_models import HOSTILE, relus, save
from on_files import LATE_S, cpu_s, warm
from onnx_models import mlp

from nnjit_studio.compiler.onnx_file import budget
from nnjit_studio.compiler.onnx_file.check import load_model
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.errors import ModelError, UserError
from nnjit_studio.model.feeds import read_arrays

PEAK_BYTES = 1 << 30


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompileProcess]:
    process = warm(tmp_path_factory.mktemp("warm"))
    yield process
    process.close()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_small_model_that_asks_for_much_is_refused_at_once(
    name: str, process: CompileProcess, tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.onnx"
    save(HOSTILE[name](), path)
    before = cpu_s(process)
    with pytest.raises(ModelError, match=r"MiB|more than \d+ nodes|calls itself|fewer nodes"):
        process.import_model(path, tmp_path / "w.bin")
    assert cpu_s(process) - before < LATE_S
    assert _peak_bytes(process) < PEAK_BYTES


def test_nodes_in_reverse_order_are_sorted_in_linear_time(tmp_path: Path) -> None:
    save(relus(20_000, reverse=True), tmp_path / "reverse.onnx")
    before = time.process_time()
    model = load_model(tmp_path / "reverse.onnx")
    assert time.process_time() - before < LATE_S
    assert [node.name for node in model.graph.node] == [f"n{i}" for i in range(20_000)]


def test_a_fifo_is_refused(process: CompileProcess, tmp_path: Path) -> None:
    for name in ("x.onnx", "x.npz"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(ModelError, match="not a regular file"):
        process.import_model(tmp_path / "x.onnx", tmp_path / "w.bin")
    with pytest.raises(UserError, match="is not an"):
        read_arrays(tmp_path / "x.npz")


def test_arrays_that_unpack_to_gigabytes_are_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros(300 << 20, np.uint8))
    with pytest.raises(UserError, match="unpacks to 300 MiB"):
        read_arrays(tmp_path / "x.npz")


def test_memory_beyond_the_budget_fails_in_words(process: CompileProcess, tmp_path: Path) -> None:
    """What no count foresees meets the kernel's limit; the process goes on."""
    with pytest.raises(MemoryError), budget.limited(1):
        np.ones(2 * budget.LEAST_BYTES, np.uint8)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    assert soft == hard
    process.import_model(mlp(tmp_path / "m.onnx"), tmp_path / "w.bin")


def test_a_job_without_progress_ends() -> None:
    code = (
        "from nnjit_studio.compiler.onnx_file import budget\n"
        "from nnjit_studio.support import limits\n"
        "limits.SECONDS = 0.2\n"
        "with budget.limited(1):\n"
        "    sum(range(10**11))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=300, check=False)
    assert done.returncode == -27  # SIGPROF


@pytest.mark.parametrize(
    ("key", "value"), [("offset", "-4096"), ("length", "1"), ("location", "a\0b"), ("offset", "x")]
)
def test_broken_entries_of_external_data_are_named(key: str, value: str, tmp_path: Path) -> None:
    path, tensor = mlp(tmp_path / "m.onnx"), "w1"
    model = onnx.load(str(path))
    onnx.save(model, str(path), save_as_external_data=True, location="w.data", size_threshold=0)
    model = onnx.load(str(path), load_external_data=False)
    weight = next(t for t in model.graph.initializer if t.name == tensor)
    entries = {e.key: e.value for e in weight.external_data} | {key: value}
    del weight.external_data[:]
    for name, text in entries.items():
        weight.external_data.add(key=name, value=text)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"broken external data|outside the model's folder"):
        load_model(path)


def test_an_unknown_type_of_weights_is_not_a_bug_of_ours(
    process: CompileProcess, tmp_path: Path
) -> None:
    path = mlp(tmp_path / "m.onnx")
    model = onnx.load(str(path))
    model.graph.initializer[0].data_type = 99
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError):
        process.import_model(path, tmp_path / "w.bin")


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.opset_import[0].CopyFrom(onnx.helper.make_opsetid("", 99)),
        lambda m: m.opset_import.append(onnx.helper.make_opsetid("", 13)),
        lambda m: m.graph.ClearField("output"),
        lambda m: m.graph.output.append(m.graph.output[0]),
    ],
    ids=["opset", "two opsets", "no outputs", "an output twice"],
)
def test_what_programs_do_not_agree_on_is_refused(
    change: Callable[[onnx.ModelProto], object], tmp_path: Path
) -> None:
    path = mlp(tmp_path / "m.onnx")
    model = onnx.load(str(path))
    change(model)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError):
        load_model(path)


def test_a_name_that_is_not_ascii_is_read_in_any_locale(tmp_path: Path) -> None:
    path = mlp(tmp_path / "mödel.onnx")
    code = (
        "import sys; from pathlib import Path\n"
        "from nnjit_studio.compiler.onnx_file.check import load_model\n"
        "print(len(load_model(next(Path(sys.argv[1]).glob('m*.onnx'))).graph.node))\n"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout.strip().isdigit(), (path, done.stderr[-300:])


def test_a_lower_limit_of_the_shell_is_kept(tmp_path: Path) -> None:
    mlp(tmp_path / "m.onnx")
    code = (
        "import sys; from pathlib import Path\n"
        "from nnjit_studio.compiler.process.client import CompileProcess\n"
        "if __name__ == '__main__':\n"
        "    p, folder = CompileProcess(), Path(sys.argv[1])\n"
        "    print(p.import_model(folder / 'm.onnx', folder / 'w.bin').plan.name)\n"
        "    p.close()\n"
    )
    (tmp_path / "run.py").write_text(code)
    line = f"ulimit -v 12000000; exec {sys.executable} {tmp_path}/run.py {tmp_path}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip() == "m", done.stderr[-500:]


def _peak_bytes(process: CompileProcess) -> int:
    child = process._child.process
    assert child is not None
    status = Path(f"/proc/{child.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
