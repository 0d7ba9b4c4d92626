"""The parent's side of the compile process: timeouts, restart, plain results."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.process import worker
from nnjit_studio.compiler.process.kernel_texts import KernelTexts
from nnjit_studio.compiler.version import COMPILER_VERSION
from nnjit_studio.errors import BugError, CompileError, ModelError
from nnjit_studio.model import (
    Generation,
    GenerationRequest,
    GivenShapes,
    Graph,
    Plan,
    Workload,
    workload_from_json,
)
from nnjit_studio.records import CompileResult, Fixture, FixtureArg, Kernel
from nnjit_studio.records.candidate import Candidate, settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate

IMPORT_TIMEOUT_S = 600.0
COMPILE_TIMEOUT_S = 20.0
MEMORY_BYTES = 16 * 2**30
KEPT_FIXTURE_BYTES = 64 * 2**20
"""A larger fixture is computed anew each time."""


@dataclass(frozen=True)
class ImportedModel:
    """What the parent keeps of an import; ``weights`` is a file of the plan's layout.

    ``gpu`` is the same model as a GPU runs it, where steps are fused that Wasm runs apart.
    """

    graph: Graph
    workloads: tuple[Workload, ...]
    plan: Plan
    packable: frozenset[str]
    weights: Path
    gpu: ImportedModel | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any], weights: Path) -> ImportedModel:
        return cls(
            Graph.from_json(data["graph"]),
            tuple(workload_from_json(w) for w in data["workloads"]),
            Plan.from_json(data["plan"]),
            frozenset(data["packable"]),
            weights,
            cls.from_json(data["gpu"], weights) if "gpu" in data else None,
        )


@dataclass(frozen=True)
class DeviceKernels:
    """Modules of the device experiments (:mod:`nnjit_studio.compiler.microbench.kernels`).

    ``spill`` holds each module with the floating-point operations of one
    iteration, ``operands`` the registers of its step beside the accumulators;
    an iteration of ``read`` and ``copy`` reads ``block_bytes``.
    """

    spill: tuple[tuple[bytes, int], ...]
    chase: bytes
    read: bytes
    copy: bytes
    operands: int
    block_bytes: int


class CompileProcess:
    """The ``Compiler`` of the tuner, in a process of its own. Thread-safe, one job at a time.

    A job that is late or dies costs that job alone: the process is started
    anew and gets the model's programs back.
    """

    version = COMPILER_VERSION

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._programs: dict[str, bytes] = {}
        self._fixture: Fixture | None = None
        self.passes_off: tuple[str, ...] = ()
        """Optional passes that kernels are made without, unless they ask for passes by name."""
        self.shapes = GivenShapes()
        """For the open dimensions of the models that are imported from now on."""
        self.winograd = True
        """Whether the models that are imported from now on may have convolutions in tiles."""
        self.half_weights = False
        """Whether weights of the models that are imported from now on are rounded to f16."""
        handle, self._chatter = tempfile.mkstemp(prefix="nnjit-compile-", suffix=".log")
        os.close(handle)

    def start(self) -> None:
        """Start the child, and have it load the importer, ahead of its first job; harmless when
        it runs.
        """
        with self._lock:
            self._ensure(ahead=True)

    def close(self) -> None:
        self.kill()
        with contextlib.suppress(OSError):
            os.unlink(self._chatter)

    def kill(self) -> None:
        """End whatever runs; a waiting caller gets a failed result. For any thread."""
        process = self._process
        if process is not None and process.is_alive():
            process.kill()
            process.join()

    def import_model(
        self,
        path: Path,
        weights: Path,
        on_phase: Callable[[str], None] = lambda phase: None,
        winograd: bool = True,
    ) -> ImportedModel:
        """Import an ONNX file; see :func:`nnjit_studio.compiler.importer.import_model`.

        ``winograd`` allows convolutions in tiles, where :attr:`winograd` does.

        Raises
        ------
        ModelError, UserError
            Also when the import is too slow, too large, or kills its process.
        """
        with self._lock:
            header, blobs = self._job(
                {
                    "op": "import",
                    "path": str(path),
                    "weights_file": str(weights),
                    "given": self.shapes.to_json(),
                    "winograd": self.winograd and winograd,
                    "half_weights": self.half_weights,
                },
                IMPORT_TIMEOUT_S,
                on_phase,
            )
        _raise_loss(header, f"The import of {path.name!r}")
        _raise_failure(header)
        self._programs.update(zip(header["keys"], blobs, strict=True))
        return ImportedModel.from_json(header, weights)

    def open_reference(self, path: Path) -> list[tuple[str, tuple[str, ...]]]:
        """Open a model in native ONNX Runtime; the name and the outputs of each of its nodes.

        Raises
        ------
        ModelError, UserError
            Also when ONNX Runtime cannot run it, is too slow, or kills its process.
        """
        with self._lock:
            header, _ = self._job({"op": "reference", "path": str(path)}, IMPORT_TIMEOUT_S)
        _raise_loss(header, f"Opening {path.name!r} in native ONNX Runtime")
        _raise_failure(header)
        return [(name, tuple(outputs)) for name, outputs in header["nodes"]]

    def onnx_attributes(self, path: Path) -> dict[str, dict[str, str]]:
        """What a model's file says of its nodes, by name: ``op`` and each attribute as text.

        Raises
        ------
        ModelError, UserError
        """
        with self._lock:
            header, _ = self._job({"op": "attributes", "path": str(path)}, IMPORT_TIMEOUT_S)
        _raise_loss(header, f"Reading {path.name!r}")
        _raise_failure(header)
        found: dict[str, dict[str, str]] = header["nodes"]
        return found

    def reference_tensors(
        self, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]
    ) -> dict[str, NDArray[Any]]:
        """Tensors of the open reference for these inputs, any that its nodes write.

        Raises
        ------
        UserError
            When ONNX Runtime fails, is too slow, or kills its process.
        """
        arrays = {name: np.ascontiguousarray(array) for name, array in feeds.items()}
        described = [
            {"name": name, "dtype": a.dtype.str, "shape": a.shape} for name, a in arrays.items()
        ]
        request = {"op": "reference_tensors", "feeds": described, "names": list(names)}
        with self._lock:
            header, blobs = self._job(
                request, IMPORT_TIMEOUT_S, blobs=[a.tobytes() for a in arrays.values()]
            )
        _raise_loss(header, "The run in native ONNX Runtime")
        _raise_failure(header)
        return {
            name: np.frombuffer(blob, np.dtype(t["dtype"])).reshape(t["shape"])
            for name, t, blob in zip(names, header["tensors"], blobs, strict=True)
        }

    def import_generation(
        self,
        path: Path,
        weights: Path,
        request: GenerationRequest,
        on_phase: Callable[[str], None] = lambda phase: None,
    ) -> tuple[Generation, list[ImportedModel]]:
        """Import a decoder: its decode plan first, then its prefill plan if it has one.

        See :func:`nnjit_studio.compiler.importer.generation.import_generation`.

        Raises
        ------
        ModelError, UserError
            Also when the import is too slow, too large, or kills its process.
        """
        job = {
            "op": "import_generation",
            "path": str(path),
            "weights_file": str(weights),
            "request": replace(request, half_weights=self.half_weights).to_json(),
        }
        with self._lock:
            header, blobs = self._job(job, IMPORT_TIMEOUT_S, on_phase)
        _raise_loss(header, f"The import of {path.name!r}")
        _raise_failure(header)
        self._programs.update(zip(header["keys"], blobs, strict=True))
        models = [ImportedModel.from_json(m, weights) for m in header["models"]]
        return Generation.from_json(header["facts"]), models

    def native_decoder(self, path: Path, prompt: Sequence[int]) -> None:
        """Load a decoder in native ONNX Runtime, which reads a prompt.

        Raises
        ------
        ModelError, UserError
        """
        job = {"op": "native_decoder", "path": str(path), "prompt": list(prompt)}
        with self._lock:
            header, _ = self._job(job, IMPORT_TIMEOUT_S)
        _raise_loss(header, f"Opening {path.name!r} in native ONNX Runtime")
        _raise_failure(header)

    def native_tokens(self, tokens: Sequence[int]) -> list[tuple[int, float]]:
        """What ONNX Runtime would have chosen greedily in place of each token, given those before.

        Returns
        -------
        list
            For each token the choice, and by how much its logit is larger than the token's.
        """
        with self._lock:
            header, _ = self._job({"op": "native_tokens", "tokens": list(tokens)}, IMPORT_TIMEOUT_S)
        _raise_loss(header, "The run in native ONNX Runtime")
        _raise_failure(header)
        return [(c["id"], c["deficit"]) for c in header["choices"]]

    def define(self, spec: str) -> tuple[Workload, bool]:
        """A workload from its spelling (:mod:`nnjit_studio.compiler.spelling`).

        Returns
        -------
        tuple
            The workload, ready to be compiled, and whether its B is packable.

        Raises
        ------
        UserError
            When the spelling cannot be read.
        """
        header = self._define(spec, "")
        return workload_from_json(header["workload"]), header["packable"]

    def define_model(self, spec: str, weights: Path) -> ImportedModel:
        """A model of one kernel, with seeded weights, from a workload's spelling.

        Raises
        ------
        UserError
            When the spelling cannot be read.
        """
        header = self._define(spec, str(weights))
        workload = workload_from_json(header["workload"])
        return ImportedModel(
            Graph.from_json(header["graph"]),
            (workload,),
            Plan.from_json(header["plan"]),
            frozenset([workload.key] if header["packable"] else ()),
            weights,
        )

    def _define(self, spec: str, weights_file: str) -> dict[str, Any]:
        with self._lock:
            header, blobs = self._job(
                {"op": "define", "spec": spec, "weights_file": weights_file}, IMPORT_TIMEOUT_S
            )
        _raise_failure(header)
        self._programs[workload_from_json(header["workload"]).key] = blobs[0]
        return header

    def compile(
        self,
        workload: Workload,
        candidate: AnyCandidate | None,
        tiers: Sequence[str],
        passes: Collection[str] | None = None,
    ) -> CompileResult:
        """A kernel for each tier. A failure is a result with an error."""
        result, _ = self._compile(workload, candidate, tiers, passes, None)
        return result

    def dump(
        self,
        workload: Workload,
        candidate: AnyCandidate | None,
        tier: str,
        dump_after: str,
        passes: Collection[str] | None = None,
    ) -> str:
        """Text of the kernel after a named pass.

        Raises
        ------
        CompileError
            When the candidate does not compile or there is no such pass.
        """
        result, dumps = self._compile(workload, candidate, (tier,), passes, dump_after)
        if result.error:
            raise CompileError(result.error)
        return dumps[0]

    def texts(self, workload: Workload, candidate: AnyCandidate | None, tier: str) -> KernelTexts:
        """The kernel after each named pass.

        Raises
        ------
        CompileError
            When the candidate does not compile, is too slow or kills the process.
        """
        request = {
            "op": "texts",
            "workload": workload.key,
            "settings": settings_of(candidate),
            "tier": tier,
            "passes_off": self.passes_off,
        }
        with self._lock:
            header, blobs = self._job(request, COMPILE_TIMEOUT_S)
        if not header["ok"]:
            raise CompileError(header["error"], header["hint"])
        return KernelTexts.from_header(header, blobs[0])

    def _compile(
        self,
        workload: Workload,
        candidate: AnyCandidate | None,
        tiers: Sequence[str],
        passes: Collection[str] | None,
        dump_after: str | None,
    ) -> tuple[CompileResult, list[str]]:
        request = {
            "op": "compile",
            "workload": workload.key,
            "settings": settings_of(candidate),
            "tiers": list(tiers),
            "passes": None if passes is None else sorted(passes),
            "passes_off": self.passes_off,
            "dump_after": dump_after,
        }
        with self._lock:
            header, blobs = self._job(request, COMPILE_TIMEOUT_S)
        if not header["ok"]:
            return CompileResult(workload.key, candidate, error=header["error"]), []
        kernels = tuple(
            Kernel.from_header(h, b) for h, b in zip(header["kernels"], blobs, strict=True)
        )
        result = CompileResult(workload.key, candidate, kernels, header["ms"], header["pass_ms"])
        return result, header["dumps"]

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
        with self._lock:
            header, blobs = self._job({"op": "fixture", "workload": workload.key}, IMPORT_TIMEOUT_S)
        if not header["ok"]:
            raise CompileError(f"No reference for {workload.name}: {header['error']}")
        args = tuple(
            FixtureArg(
                a["role"],
                a["dtype"],
                a["nbytes"],
                blob or None,
                (a["pack"][0], a["pack"][1]) if a["pack"] else None,
            )
            for a, blob in zip(header["args"], blobs, strict=False)
        )
        rest = iter(blobs[len(args) :])
        expected, bound = [], []
        for output in header["outputs"]:
            expected.append(np.frombuffer(next(rest), np.dtype(output["dtype"])))
            bound.append(np.frombuffer(next(rest), np.float32))
        found = Fixture(workload.key, args, tuple(expected), tuple(bound))
        small = sum(map(len, blobs)) <= KEPT_FIXTURE_BYTES
        self._fixture = found if small else None
        return found

    def conventional_ms(self, workload: Workload, candidate: Candidate) -> dict[str, float]:
        """Milliseconds of TVM, LLVM and the installed linkers, for the same matmul and tile.

        Raises
        ------
        CompileError
            When one of them fails.
        """
        sizes = [1, *workload.dims][-4:]
        with self._lock:
            header, _ = self._job(
                {"op": "conventional", "sizes": sizes, "settings": str(candidate)},
                IMPORT_TIMEOUT_S,
            )
        if not header["ok"]:
            raise CompileError(header["error"])
        steps: dict[str, float] = header["ms"]
        return steps

    def device_kernels(
        self, tier: str, accumulators: Sequence[int], copy_bytes: int
    ) -> DeviceKernels:
        """Modules of the device experiments, the spill ladder for these accumulators."""
        job = {
            "op": "device_kernels",
            "tier": tier,
            "accumulators": list(accumulators),
            "copy_bytes": copy_bytes,
        }
        with self._lock:
            header, blobs = self._job(job, COMPILE_TIMEOUT_S)
        if not header["ok"]:
            raise CompileError(header["error"])
        *spills, chase, read, copy = blobs
        spill = tuple(zip(spills, header["flops"], strict=True))
        return DeviceKernels(spill, chase, read, copy, header["operands"], header["block_bytes"])

    def variants(self, tiers: Sequence[str]) -> tuple[Workload, list[tuple[str, str, Kernel]]]:
        """The common matmul with one primitive changed at a time.

        Returns
        -------
        tuple
            The workload, and primitive, setting and kernel of each variant;
            the first, without a name, is what the others differ from.
        """
        with self._lock:
            header, blobs = self._job({"op": "variants", "tiers": list(tiers)}, COMPILE_TIMEOUT_S)
        if not header["ok"]:
            raise CompileError(header["error"])
        workload = workload_from_json(header["workload"])
        program, *modules = blobs
        self._programs[workload.key] = program
        return workload, [
            (primitive, setting, Kernel.from_header(about, data))
            for (primitive, setting, about), data in zip(header["variants"], modules, strict=True)
        ]

    def peak_kernels(
        self, tiers: Sequence[str], wide: bool = False
    ) -> list[tuple[str, bytes, int]]:
        """Modules that measure the peak multiply-add rate: tier, bytes, FLOPs an iteration.

        ``wide`` is for an engine that packs pairs of vectors.
        """
        with self._lock:
            job = {"op": "peak", "tiers": list(tiers), "wide": wide}
            header, blobs = self._job(job, COMPILE_TIMEOUT_S)
        if not header["ok"]:
            raise CompileError(header["error"])
        return list(zip(tiers, blobs, header["flops"], strict=True))

    def gpu_limit_kernels(self, copy_bytes: int) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
        """Kernel documents for a GPU's limits: multiply-adds with their FLOPs a run, and a copy
        of ``copy_bytes`` (a multiple of 16) with the bytes that it moves.
        """
        with self._lock:
            job = {"op": "gpu_limits", "copy_bytes": copy_bytes}
            header, blobs = self._job(job, COMPILE_TIMEOUT_S)
        if not header["ok"]:
            raise CompileError(header["error"])
        return (blobs[0], header["flops"]), (blobs[1], header["moved_bytes"])

    def _ensure(self, ahead: bool = False) -> Connection:
        if self._process is not None and self._process.is_alive() and self._pipe is not None:
            return self._pipe
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._process = context.Process(
            target=worker.serve,
            args=(theirs, self._chatter, self._memory_bytes, ahead),
            name="nnjit-compile",
            daemon=True,
        )
        # Measured kernels share the cores: the reference's BLAS stays on one.
        with _environment(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1"):
            self._process.start()
        theirs.close()
        self._pipe = ours
        if self._programs:
            worker.send(
                ours,
                {"op": "restore", "keys": list(self._programs)},
                list(self._programs.values()),
            )
            worker.receive(ours)
        return ours

    def _job(
        self,
        request: dict[str, Any],
        timeout_s: float,
        on_phase: Callable[[str], None] = lambda phase: None,
        blobs: Sequence[bytes] = (),
    ) -> tuple[dict[str, Any], list[bytes]]:
        try:
            pipe = self._ensure()
            worker.send(pipe, request, blobs)
            while True:
                if not pipe.poll(timeout_s):
                    self.kill()
                    return _lost(f"no answer within {timeout_s:.0f} s"), []
                header, answers = worker.receive(pipe)
                if "phase" not in header:
                    return header, answers
                on_phase(header["phase"])
        except (EOFError, OSError):
            self.kill()
            return _lost(self._why_it_died()), []

    def _why_it_died(self) -> str:
        code = self._process.exitcode if self._process is not None else None
        lines = Path(self._chatter).read_text(errors="replace").strip().splitlines()
        said = f", its last words: {lines[-1][:200]}" if lines else ""
        return f"the compile process died (exit code {code}){said}"


def _lost(why: str) -> dict[str, Any]:
    return {"ok": False, "kind": "bug", "error": why + ".", "hint": "", "lost": True}


def _raise_loss(header: dict[str, Any], what: str) -> None:
    """The process is gone: a stranger's model did that, which is no bug of ours."""
    if header.get("lost"):
        raise ModelError(
            f"{what} ended: {header['error']}",
            "The model may be damaged or too large for this machine.",
        )


def _raise_failure(header: dict[str, Any]) -> None:
    if header["ok"]:
        return
    name = header.get("class", "")
    raise worker.ERROR_CLASSES.get(name, BugError)(header["error"], header["hint"])


@contextlib.contextmanager
def _environment(**values: str) -> Any:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
