"""The compile process: models are parsed and kernels are made here, under limits.

Parent and child speak JSON headers and raw blobs over a pipe. The programs of
a model travel back to the parent as opaque bytes, so that a new child can go
on where a killed one stopped; the parent never unpickles them.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import pickle
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnjit_studio.errors import CompileError, ModelError, NnjitError, UnsupportedOpError, UserError
from nnjit_studio.model import GenerationRequest, GivenShapes

if TYPE_CHECKING:
    from nnjit_studio.compiler.importer.build import BuiltModel
    from nnjit_studio.compiler.ir.tensor_ir import Program


def send(pipe: Connection, header: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """One message: a JSON header that counts the blobs behind it."""
    pipe.send_bytes(json.dumps({**header, "n_blobs": len(blobs)}).encode())
    for blob in blobs:
        pipe.send_bytes(blob)


def receive(pipe: Connection) -> tuple[dict[str, Any], list[bytes]]:
    """The counterpart of :func:`send`."""
    header = json.loads(pipe.recv_bytes())
    return header, [pipe.recv_bytes() for _ in range(header.pop("n_blobs"))]


def serve(pipe: Connection, chatter_file: str, memory_bytes: int, ahead: bool = False) -> None:
    """Main loop of the child; ends when the parent closes the pipe.

    ``ahead`` loads the importer before the first job asks for it: TVM takes a second.
    """
    chatter = os.open(chatter_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(chatter, 1)
    os.dup2(chatter, 2)
    _limit_memory(memory_bytes)
    # TVM imports PyTorch where it is installed; its libraries alone can map more than the limit.
    sys.modules["torch"] = None  # type: ignore[assignment]
    # Ctrl-C goes to every process of the terminal; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(5)  # what is measured on the same cores goes first
    worker = _Worker(pipe)
    if ahead:
        import nnjit_studio.compiler.importer  # noqa: F401
    with contextlib.suppress(EOFError, OSError):
        while True:
            header, blobs = receive(pipe)
            worker.answer(header, blobs)


def _limit_memory(memory_bytes: int) -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


_LOADING = ("import", "import_generation", "define", "restore", "conventional", "variants")
"""Operations that load code or programs, which then stay."""


def _settle() -> None:
    """Keep what is loaded out of later garbage collections.

    With TVM loaded a full collection walks its objects for 40 to 80 ms, in the
    middle of some candidate's compilation: without this it was the 99th percentile.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _described(built: BuiltModel) -> tuple[dict[str, Any], dict[str, Program]]:
    """A model as Wasm runs it, under ``gpu`` as a GPU does where that differs; all programs."""
    from nnjit_studio.compiler.importer.program.fuse_attention import fuse_attention

    def plain(form: BuiltModel) -> dict[str, Any]:
        return {
            "graph": form.graph.to_json(),
            "workloads": [asdict(w) for w in form.workloads],
            "plan": form.plan.to_json(),
            "packable": form.packable,
        }

    on_gpu = fuse_attention(built)
    described = plain(built) | ({} if on_gpu is built else {"gpu": plain(on_gpu)})
    return described, {**built.programs, **on_gpu.programs}


class _Worker:
    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.programs: dict[str, Any] = {}
        self.reference: Any = None
        self.native: Any = None

    def answer(self, header: dict[str, Any], blobs: list[bytes]) -> None:
        name = header.pop("op")
        operation = getattr(self, "op_" + name)
        try:
            reply, out = operation(blobs, **header)
            send(self.pipe, {"ok": True, **reply}, out)
            if name in _LOADING:
                _settle()
        except NnjitError as e:
            send(self.pipe, {**e.to_json(), "class": type(e).__name__})
        except MemoryError:
            full = UserError(
                "The compile process ran out of memory.", "Close other programs or split the model."
            )
            send(self.pipe, {**full.to_json(), "class": "UserError"})
        except Exception as e:
            text = f"{type(e).__name__}: {e}"[:500]
            send(
                self.pipe,
                {
                    "ok": False,
                    "kind": "bug",
                    "error": f"The compile process failed: {text}.",
                    "hint": "Please report this with the log.",
                    "class": "BugError",
                },
            )

    def op_import(
        self,
        blobs: list[bytes],
        path: str,
        weights_file: str,
        given: dict[str, Any],
        winograd: bool,
        half_weights: bool,
    ) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.importer import import_model

        built = import_model(
            Path(path),
            Path(weights_file),
            lambda phase: send(self.pipe, {"phase": phase}),
            GivenShapes.from_json(given),
            winograd,
            half_weights,
        )
        described, programs = _described(built)
        self.programs.update(programs)
        return {**described, "keys": list(programs)}, [pickle.dumps(p) for p in programs.values()]

    def op_import_generation(
        self, blobs: list[bytes], path: str, weights_file: str, request: dict[str, Any]
    ) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.importer.generation import import_generation

        built = import_generation(
            Path(path),
            Path(weights_file),
            GenerationRequest.from_json(request),
            lambda phase: send(self.pipe, {"phase": phase}),
        )
        plans = [_described(b) for b in (built.decode, built.prefill) if b is not None]
        programs = {key: p for _, found in plans for key, p in found.items()}
        self.programs.update(programs)
        return {
            "facts": built.facts.to_json(),
            "models": [described for described, _ in plans],
            "keys": list(programs),
        }, [pickle.dumps(p) for p in programs.values()]

    def op_native_decoder(
        self, blobs: list[bytes], path: str, prompt: list[int]
    ) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.oracle.native_decode import NativeDecoder

        self.native = None  # two models at once may be too many
        self.native = NativeDecoder(Path(path), prompt)
        return {}, []

    def op_native_tokens(
        self, blobs: list[bytes], tokens: list[int]
    ) -> tuple[dict[str, Any], list[bytes]]:
        if self.native is None:
            raise UserError(
                "The process that runs native ONNX Runtime ended.", "Start the check again."
            )
        return {"choices": [asdict(c) for c in self.native.compare(tokens)]}, []

    def op_reference(self, blobs: list[bytes], path: str) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.oracle.onnx_reference import OnnxReference

        self.reference = None  # two models at once may be too many
        self.reference = OnnxReference(Path(path))
        return {"nodes": self.reference.nodes}, []

    def op_attributes(self, blobs: list[bytes], path: str) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.onnx_file.attributes import attributes_of

        return {"nodes": attributes_of(Path(path))}, []

    def op_reference_tensors(
        self, blobs: list[bytes], feeds: list[dict[str, Any]], names: list[str]
    ) -> tuple[dict[str, Any], list[bytes]]:
        import numpy as np

        if self.reference is None:
            raise UserError(
                "The process that runs native ONNX Runtime ended.",
                "Compare again; a model that needs more memory than there is cannot be compared.",
            )
        arrays = {
            f["name"]: np.frombuffer(blob, np.dtype(f["dtype"])).reshape(f["shape"])
            for f, blob in zip(feeds, blobs, strict=True)
        }
        found = self.reference.run(arrays, names)
        described = [{"dtype": a.dtype.str, "shape": a.shape} for a in found.values()]
        return {"tensors": described}, [a.tobytes() for a in found.values()]

    def op_define(
        self, blobs: list[bytes], spec: str, weights_file: str
    ) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.recognize.subject import packed_weight
        from nnjit_studio.compiler.recognize.workload import workload_for
        from nnjit_studio.compiler.spelling import program_for
        from nnjit_studio.compiler.templates import subject_of

        program = program_for(spec)
        subject = subject_of(program)
        workload = workload_for(program, subject)
        self.programs[workload.key] = program
        packable = packed_weight(subject) is not None
        reply = {"workload": asdict(workload), "packable": packable}
        if weights_file:
            from nnjit_studio.compiler.importer.single_program import model_of

            built = model_of(spec, program, Path(weights_file))
            reply |= {"graph": built.graph.to_json(), "plan": built.plan.to_json()}
        return reply, [pickle.dumps(program)]

    def op_restore(self, blobs: list[bytes], keys: list[str]) -> tuple[dict[str, Any], list[bytes]]:
        for key, blob in zip(keys, blobs, strict=True):
            self.programs[key] = pickle.loads(blob)
        return {}, []

    def op_compile(
        self,
        blobs: list[bytes],
        workload: str,
        settings: str,
        tiers: list[str],
        passes: list[str] | None = None,
        passes_off: Sequence[str] = (),
        dump_after: str | None = None,
    ) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES, compile_program
        from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl
        from nnjit_studio.records import GPU_TIERS, Kernel
        from nnjit_studio.records.candidate import DEFAULT_SETTINGS
        from nnjit_studio.records.gpu_candidate import GpuCandidate, parse_candidate

        candidate = None if settings == DEFAULT_SETTINGS else parse_candidate(settings)
        if passes is None:
            passes = [p for p in OPTIONAL_PASSES if p not in passes_off]
        kernels: list[Kernel] = []
        dumps: list[str] = []
        pass_ms: dict[str, float] = {}
        started = time.perf_counter()
        for tier in tiers:
            program = self.programs[workload]
            if tier in GPU_TIERS:
                artifact = compile_wgsl(program, candidate, tier, dump_after)
            elif isinstance(candidate, GpuCandidate):
                raise CompileError(
                    f"{candidate} are settings of a WGSL kernel, not of {tier}.",
                    f"Choose one of the tiers {', '.join(GPU_TIERS)}.",
                )
            else:
                artifact = compile_program(program, candidate, tier, tuple(passes), dump_after)
            for name, ms in artifact.pass_ms.items():
                pass_ms[name] = pass_ms.get(name, 0.0) + ms / len(tiers)
            dumps.append(artifact.dump)
            kernels.append(
                Kernel(
                    workload,
                    candidate,
                    tier,
                    artifact.data,
                    hashlib.sha256(artifact.data).hexdigest(),
                    artifact.panels,
                    artifact.parallel_extent,
                )
            )
        ms = (time.perf_counter() - started) * 1e3 / len(tiers)
        headers = [k.header() for k in kernels]
        return {"ms": ms, "pass_ms": pass_ms, "kernels": headers, "dumps": dumps}, [
            k.data for k in kernels
        ]

    def op_texts(
        self, blobs: list[bytes], workload: str, settings: str, tier: str, passes_off: Sequence[str]
    ) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES
        from nnjit_studio.compiler.process.inspection import kernel_texts
        from nnjit_studio.records.candidate import DEFAULT_SETTINGS
        from nnjit_studio.records.gpu_candidate import parse_candidate

        candidate = None if settings == DEFAULT_SETTINGS else parse_candidate(settings)
        passes = [p for p in OPTIONAL_PASSES if p not in passes_off]
        found = kernel_texts(workload, self.programs[workload], candidate, tier, passes)
        return found.header(), [found.kernel.data]

    def op_conventional(
        self, blobs: list[bytes], sizes: list[int], settings: str
    ) -> tuple[dict[str, Any], list[bytes]]:
        import tempfile

        from nnjit_studio.compiler.tvm_adapter.llvm_wasm import build_ms
        from nnjit_studio.records.candidate import Candidate

        batch, m, k, n = sizes
        with tempfile.TemporaryDirectory() as folder:
            return {"ms": build_ms(batch, m, k, n, Candidate.parse(settings), Path(folder))}, []

    def op_fixture(self, blobs: list[bytes], workload: str) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.oracle.fixture import make_fixture

        fixture = make_fixture(workload, self.programs[workload])
        args = [
            {"role": a.role, "dtype": a.dtype, "nbytes": a.nbytes, "pack": a.pack}
            for a in fixture.args
        ]
        out = [a.data or b"" for a in fixture.args]
        outputs = [{"dtype": e.dtype.str, "n": e.size} for e in fixture.expected]
        for expected, bound in zip(fixture.expected, fixture.bound, strict=True):
            out += [expected.tobytes(), bound.tobytes()]
        return {"args": args, "outputs": outputs}, out

    def op_device_kernels(
        self, blobs: list[bytes], tier: str, accumulators: list[int], copy_bytes: int
    ) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.microbench import kernels

        spills = [kernels.spill_kernel(count, tier) for count in accumulators]
        others = [kernels.chase_kernel(), kernels.read_kernel(), kernels.copy_kernel(copy_bytes)]
        return {
            "flops": [flops for _, flops in spills],
            "operands": kernels.SPILL_OPERANDS,
            "block_bytes": kernels.BLOCK_BYTES,
        }, [*(data for data, _ in spills), *others]

    def op_variants(
        self, blobs: list[bytes], tiers: list[str]
    ) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.microbench.variants import common_matmul, variants
        from nnjit_studio.compiler.recognize.workload import workload_for
        from nnjit_studio.compiler.templates import subject_of
        from nnjit_studio.records import Kernel

        program = common_matmul()
        workload = workload_for(program, subject_of(program))
        self.programs[workload.key] = program
        made = []
        for v in variants(program, tiers):
            a = v.artifact
            digest = hashlib.sha256(a.data).hexdigest()
            kernel = Kernel(
                workload.key, v.candidate, v.tier, a.data, digest, a.panels, a.parallel_extent
            )
            made.append((v.primitive, v.setting, kernel))
        headers = [[primitive, setting, k.header()] for primitive, setting, k in made]
        return {"workload": asdict(workload), "variants": headers}, [
            pickle.dumps(program),
            *(k.data for _, _, k in made),
        ]

    def op_gpu_limits(
        self, blobs: list[bytes], copy_bytes: int
    ) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.wgsl.core.peak import copy_document, peak_document

        (peak, flops), (copy, moved) = peak_document(), copy_document(copy_bytes)
        return {"flops": flops, "moved_bytes": moved}, [peak.to_bytes(), copy.to_bytes()]

    def op_peak(
        self, blobs: list[bytes], tiers: list[str], wide: bool
    ) -> tuple[dict[str, Any], list[bytes]]:
        from nnjit_studio.compiler.wasm.peak import peak_kernel

        kernels = [peak_kernel(tier, wide) for tier in tiers]
        return {"flops": [flops for _, flops in kernels]}, [data for data, _ in kernels]


ERROR_CLASSES = {c.__name__: c for c in (ModelError, UnsupportedOpError, UserError)}
