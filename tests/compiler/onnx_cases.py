"""The onnx package's own models of single operators, each on its arrays: ``make onnx-cases``.

They are read from the installed package. Writes the table of docs/onnx-cases.md.
"""

from __future__ import annotations

import datetime
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case import base
from onnx.backend.test.case.node import collect_testcases
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.onnx_file.native import native_session
from nnjit_studio.errors import ModelError
from nnjit_studio.model.feeds import in_known_dtype

TABLE = Path(__file__).parents[2] / "docs" / "onnx-cases.md"
_BEGIN, _END = "<!-- table -->\n", "<!-- end of table -->\n"
RIGHT, CONSTANT, RUNTIME = "right", "right with constants", "as ONNX Runtime"
REFUSED, DIFFERS, ERROR = "refused", "differs", "error"
KINDS = (RIGHT, CONSTANT, RUNTIME, REFUSED, DIFFERS, ERROR)
NEAR_ZERO = ("test_dft_inverse", "test_dft_inverse_opset19")
"""Models whose expected zeros are rounding errors of 2e-7, twice what may differ."""
_MAKERS = (
    "BlackmanWindow", "ConstantOfShape", "HammingWindow", "HannWindow", "MelWeightMatrix", "Range",
)  # fmt: skip
"""Operators of which all inputs are constants in files that exporters write."""


@dataclass(frozen=True)
class OnnxCase:
    """One model of the package; arrays by name, and how far the results may be off."""

    name: str
    op: str
    model: onnx.ModelProto
    feeds: dict[str, Any]
    expected: dict[str, Any]
    relative: float
    absolute: float


@dataclass(frozen=True)
class Outcome:
    """What became of one model: one of ``KINDS``, and the sentence of a refusal or failure."""

    case: OnnxCase
    kind: str
    why: str = ""


def onnx_cases() -> Iterator[OnnxCase]:
    """The models in the package's order; those of functions laid out go by the function's name."""
    ops: dict[str, str] = {}
    np.random.seed(0)
    for case in collect_testcases():
        base, (given, results) = case.name.split("_expanded")[0], case.data_sets[0]
        graph = case.model.graph
        op = ops.setdefault(base, graph.node[0].op_type)
        feeds = {p.name: _array(a) for p, a in zip(graph.input, given, strict=True)}
        expected = {p.name: _array(a) for p, a in zip(graph.output, results, strict=True)}
        yield OnnxCase(case.name, op, case.model, feeds, expected, case.rtol, case.atol)


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def outcome(case: OnnxCase, folder: Path, tier: str = "relaxed-simd") -> Outcome:
    """Import a model as it is, else with what exporters have as constants, and run it."""
    found = _outcome(case, case.model, folder, tier)
    if found.kind != REFUSED:
        return found
    held = _with_constants(case)
    again = found if held is None else _outcome(case, held, folder, tier)
    return Outcome(case, CONSTANT) if again.kind == RIGHT else again


def _outcome(case: OnnxCase, model: onnx.ModelProto, folder: Path, tier: str) -> Outcome:
    path, weights = folder / "model.onnx", folder / "weights.bin"
    onnx.save(model, str(path))
    try:
        built = import_model(path, weights)
        feeds = {n: in_known_dtype(np.asarray(a)) for n, a in case.feeds.items()}
        got = run_by_kernels(built, weights, feeds, tier)
    except ModelError as e:
        return Outcome(case, REFUSED, e.error)
    except Exception as e:
        return Outcome(case, ERROR, f"{type(e).__name__}: {e}"[:300])
    why = _difference(case, got, case.expected)
    if not why:
        return Outcome(case, RIGHT)
    native = _native(model, case)
    agrees = native is not None and not _difference(case, got, native)
    return Outcome(case, RUNTIME if agrees else DIFFERS, why)


def _difference(case: OnnxCase, got: dict[str, Any], expected: dict[str, Any]) -> str:
    absolute = 5e-7 if case.name in NEAR_ZERO else case.absolute
    for name, wanted in expected.items():
        array = in_known_dtype(np.asarray(wanted))
        try:
            assert got[name].dtype == array.dtype, (got[name].dtype, array.dtype)
            np.testing.assert_allclose(got[name], array, case.relative, absolute, strict=True)
        except (AssertionError, TypeError) as e:
            return f"{name}: {' '.join(str(e).split())[:300]}"
    return ""


def _native(model: onnx.ModelProto, case: OnnxCase) -> dict[str, Any] | None:
    """What ONNX Runtime computes, where it has the operator."""
    try:
        session = native_session(model.SerializeToString(), intra_op_num_threads=1)
        wanted = {p.name for p in session.get_inputs()}
        found = session.run(None, {n: a for n, a in case.feeds.items() if n in wanted})
    except Exception:  # of many kinds, and all mean that it has none
        return None
    return dict(zip(case.expected, found, strict=True))


def _with_constants(case: OnnxCase) -> onnx.ModelProto | None:
    """The model with all inputs but the first as constants; of what is made of numbers, all."""
    first = [] if case.op in _MAKERS else list(case.model.graph.node[0].input[:1])
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for port in list(model.graph.input):
        array = case.feeds[port.name]
        if port.name not in first and isinstance(array, np.ndarray | np.generic):
            model.graph.input.remove(port)
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), port.name))
    model.ir_version = max(model.ir_version, 4)  # before, constants were inputs too
    return model if model.graph.initializer else None


def first_of_each(given: Iterable[OnnxCase]) -> Iterator[OnnxCase]:
    """The first model of each operator, of those that are one node."""
    seen: set[str] = set()
    for case in given:
        if case.op not in seen and "_expanded" not in case.name:
            seen.add(case.op)
            yield case


def first_cases() -> Iterator[OnnxCase]:
    """The first model of each operator, which the first export of its class makes.

    No other export runs, in this process: for poolings in three dimensions alone the package
    computes for seconds.
    """
    with patch.object(base._Exporter, "__init__", _export_first):
        yield from first_of_each(onnx_cases())


def _export_first(cls: type, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
    for member in members:
        if member.startswith("export"):
            np.random.seed(0)  # as the package does
            getattr(cls, member)()
            break
    type.__init__(cls, name, bases, members)


def table(results: Iterable[Outcome]) -> str:
    """Markdown: numbers of each kind, a row for each operator, and the sentences of refusals."""
    counts: dict[str, Counter[str]] = {}
    said: dict[str, Counter[str]] = {}
    for found in results:
        counts.setdefault(found.case.op, Counter())[found.kind] += 1
        if found.why:
            said.setdefault(_plain(found), Counter())[found.case.op] += 1
    total = sum(counts.values(), Counter())
    numbers = ", ".join(f"{total[kind]} {kind}" for kind in KINDS)
    lines = [
        f"onnx {onnx.__version__}, {datetime.date.today()}: {total.total()} models, {numbers}.\n",
        f"| operator | {' | '.join(KINDS)} |",
        f"|---|{'---|' * len(KINDS)}",
    ]
    for op, count in sorted(counts.items()):
        lines.append(f"| {op} | {' | '.join(str(count[k] or '') for k in KINDS)} |")
    lines += ["\n| models | what is said | operators |", "|---|---|---|"]
    for why, count in sorted(said.items(), key=lambda item: -item[1].total()):
        lines.append(f"| {count.total()} | {why} | {', '.join(sorted(count))} |")
    return "\n".join(lines) + "\n"


def _plain(found: Outcome) -> str:
    """The sentence without what is the model's own."""
    if found.kind in (DIFFERS, RUNTIME):
        return found.kind
    words = re.sub(r"nodes? '.*?'(, '.*?')*", "node N", found.why)
    words = re.sub(r"(input|output) '.*?'", r"\1 N", words)
    words = re.sub(r"(open shape:) .*", r"\1 N", words)
    own = re.compile(rf"operator {found.case.op}\b")
    return own.sub("operator", words)


def main() -> None:
    warnings.simplefilter("ignore")
    results = []
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        for case in onnx_cases():
            results.append(outcome(case, Path(folder)))
            if results[-1].kind in (DIFFERS, ERROR):
                sys.stdout.write(f"{case.name}: {results[-1].kind}: {results[-1].why}\n")
    before, after = TABLE.read_text(encoding="utf-8").split(_BEGIN)
    text = before + _BEGIN + table(results) + _END + after.split(_END)[1]
    TABLE.write_text(text, encoding="utf-8", newline="\n")
    wrong = sum(found.kind in (DIFFERS, ERROR) for found in results)
    sys.stdout.write(f"{wrong} of {len(results)} models are wrong; {TABLE.name} is written.\n")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
