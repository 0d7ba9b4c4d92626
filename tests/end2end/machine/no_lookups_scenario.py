"""All that the Studio starts, in one process: a name that is looked up is one too many.

Prints the doctor's report. Runs under `lonely.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.errors import ModelError

TELEMETRY_S = 14.0
"""ONNX Runtime's first lookup came 9 s after a model was opened (1.32, an idle machine)."""


def softmax(path: Path, axis: int) -> Path:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    node = helper.make_node("Softmax", ["x"], ["y"], axis=axis)
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def main() -> None:
    folder = Path(os.environ["TMPDIR"])
    words = ["doctor", "--no-sandbox", "--gpu", "software", "--json"]
    with subprocess.Popen([Path(sys.executable).with_name("nnjit"), *words]) as doctor:
        compiler = CompileProcess()
        try:
            compiler.import_model(softmax(folder / "bad.onnx", 77), folder / "w.bin")
        except ModelError as error:
            print(error, file=sys.stderr)
        else:
            raise AssertionError("an axis of 77 was imported")
        assert compiler.open_reference(softmax(folder / "good.onnx", -1))
        time.sleep(TELEMETRY_S)
        compiler.close()
    sys.exit(doctor.returncode)


if __name__ == "__main__":
    main()
