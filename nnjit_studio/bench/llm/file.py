"""``nnjit bench llama FILE``: texts of a decoder's file, ours and ONNX Runtime Web's in turns."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nnjit_studio.bench.conditions import measured_now, threads_text
from nnjit_studio.bench.options import BenchOptions, Note
from nnjit_studio.bench.peers.models import PEERS
from nnjit_studio.bench.report import Report, Table
from nnjit_studio.bench.server import serve, visit
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.errors import UserError
from nnjit_studio.generation.texts import compare
from nnjit_studio.model import GenerationRequest, Token
from nnjit_studio.tuner.events import Failed
from nnjit_studio.verdict.case import ORT, OURS, Entry, files_of, ort_entry
from nnjit_studio.verdict.figures import Interval, median_interval, paired_ratio
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.jobs import export

TIMEOUT_S = 600.0
"""For one text, with what stands in front of the first."""
SEED = 1
_SHOWN = 14
"""Workloads of a token in a report."""
_SPARE = 8
"""Slots of our cache beyond the text, so that no text ends because it is full."""


@dataclass(frozen=True)
class FileRun:
    """The text that is timed, and how our kernels are chosen."""

    prompt_tokens: int
    tokens: int
    rounds: int
    threads: int
    seconds: float
    """Of tuning, for both plans; 0 for first guesses."""


def text_of_file(
    bench: Workbench, path: Path, run: FileRun, options: BenchOptions, note: Note
) -> dict[str, Any]:
    """Texts of one file in turns in one page; the benchmark's JSON document.

    The texts are greedy, behind a seeded prompt, and each token is compared with native ONNX
    Runtime in full precision.

    Raises
    ------
    UserError, ModelError, TargetError, PageError
    """
    facts = facts_of(path)
    opened = bench.open_decoder(path, _request(run), note)
    shape = next(o.spec.shape for o in opened.plan.outputs if o.spec.name == facts["logits"])
    rng = np.random.default_rng(SEED)
    prompt = [int(i) for i in rng.integers(0, shape[-1], run.prompt_tokens)]
    if run.seconds:
        note(f"tuning both plans for {run.seconds:g} s")
        for event in bench.tuning.start(run.seconds):
            if isinstance(event, Failed):
                raise UserError(event.error["error"], event.error.get("hint", ""))
    bench.model.register_best()
    backend = bench.page.backend.name
    place = export(
        bench.model, options.folder / "bundle.zip", samples=False, webgpu=backend != "wasm"
    )
    with zipfile.ZipFile(place) as archive:
        archive.extractall(options.folder / "bundle")
    place.unlink()
    entries = [Entry("ours", OURS, "bundle/manifest.json", provider=backend)]
    builds = PEERS[backend]
    entries += [
        replace(ort_entry(options.folder, path), provider=backend, build=builds[peer])
        for peer in options.peers
    ]
    job = {
        "threads": run.threads,
        "prompt": prompt,
        "tokens": run.tokens,
        "rounds": run.rounds,
        "facts": facts,
        "contenders": [asdict(e) for e in entries],
    }
    (options.folder / "job.json").write_text(json.dumps(job))
    note(f"{run.rounds} texts of {run.tokens} tokens of each, in turns")
    with serve(options) as server, visit(server, "texts.html", options) as running:
        message = written_texts(server, lambda: bench.page.cancelled, note)
    checks = dict(_checked(bench, path, prompt, message["texts"]))
    size = sum(f.stat().st_size for f in files_of(path))
    return {
        **document(_title(path), run, message, checks, backend),
        "file_bytes": size,
        "flags": running.flags,
    }


def written_texts(server: PageServer, cancelled: Callable[[], bool], note: Note) -> dict[str, Any]:
    """The page's report behind its last text; each has the time to itself, and is told.

    Raises
    ------
    PageError
        When a text takes too long, or the page failed.
    UserError
        When it was cancelled: that ends it behind the text at hand.
    """
    while (message := server.next_message(TIMEOUT_S))["type"] == "text":
        which = f"text {message['count']}" if message["count"] else "a first text"
        note(f"{message['name']}: {which}, {message['ms'] / 1000:.1f} s")
        if cancelled():
            raise UserError("The texts were cancelled.")
    return message


def _title(path: Path) -> str:
    """The file's name, with that of its folder where all files are called alike."""
    return f"{path.resolve().parent.name}/{path.name}" if path.stem == "model" else path.name


def _request(run: FileRun) -> GenerationRequest:
    """A cache as long as the text, and the prompt in chunks of up to 128."""
    return GenerationRequest(run.prompt_tokens + run.tokens + _SPARE, min(128, run.prompt_tokens))


def facts_of(path: Path) -> dict[str, Any]:
    """The inputs and outputs of a decoder by their role, for ``resources/bench/texts.js``.

    Raises
    ------
    ModelError, UserError
        Where the file is no decoder, or has a past of fixed size.
    """
    import onnx

    from nnjit_studio.compiler.importer.decoder.branches import CHOICE, has_branches, take_branch
    from nnjit_studio.compiler.importer.decoder.parts import IDS, MASK, find_decoder

    model = onnx.load(str(path), load_external_data=False)
    element = onnx.TensorProto.DataType.Name
    names = {"FLOAT": "float32"}
    types = {i.name: element(i.type.tensor_type.elem_type) for i in model.graph.input}
    branch = CHOICE if has_branches(model) else ""
    take_branch(model, past=True)
    decoder = find_decoder(model)
    if decoder.past is not None or decoder.rows is not None:
        raise UserError(
            f"{path.name} has a past of fixed size, so texts of any length are not compared.",
            "Export it with open dimensions.",
        )
    return {
        "ids": IDS,
        "mask": MASK,
        "positions": decoder.positions,
        "branch": branch,
        "logits": decoder.logits,
        "pasts": [
            {"input": p.input, "output": p.output, "dims": [1, p.heads, 0, p.width]}
            for p in decoder.pasts
        ],
        "types": {name: names.get(word, word.lower()) for name, word in types.items()},
    }


def _checked(
    bench: Workbench, path: Path, prompt: Sequence[int], texts: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each contender's last text beside native ONNX Runtime in full precision."""
    for name, rounds in texts.items():
        last = rounds[-1]
        made = [Token(i, 0.0, m) for i, m in zip(last["ids"], last["margins"], strict=True)]
        bench.process.native_decoder(path, prompt, bench.model.current.plan.half_cache)
        yield name, compare(made, bench.process.native_tokens(last["ids"]))


def document(
    name: str,
    run: FileRun,
    message: Mapping[str, Any],
    checks: Mapping[str, Any],
    backend: str = "wasm",
) -> dict[str, Any]:
    """The benchmark's JSON of what the page reported."""
    texts: Mapping[str, list[dict[str, Any]]] = message["texts"]
    amounts = {"prompt": run.prompt_tokens, "decode": run.tokens - 1}
    ms = {part: {n: [t[f"{part}_ms"] for t in ts] for n, ts in texts.items()} for part in amounts}
    rates = {
        part: {n: _rate(median_interval(samples), amounts[part]) for n, samples in of.items()}
        for part, of in ms.items()
    }
    found: dict[str, Any] = {
        "ok": True,
        "model": name,
        "run": asdict(run),
        "backend": backend,
        "browser": message["user_agent"],
        **measured_now(None, {}),
        "tokens_per_s": rates,
        "samples_ms": ms,
        "facts": message["facts"],
        "steps": _by_workload(message["steps"]),
        "same_each_round": {
            n: all(t["ids"] == ts[0]["ids"] for t in ts) for n, ts in texts.items()
        },
        "native": dict(checks),
    }
    if ORT in texts:
        pairs = {part: paired_ratio(of["ours"], of[ORT]) for part, of in ms.items()}
        found["ratio"] = {part: pair and pair.to_json() for part, pair in pairs.items()}
        ours, theirs = (texts[n][0]["ids"] for n in ("ours", ORT))
        differing = (i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
        found["equal_tokens"] = next(differing, len(ours))
    return found


def _by_workload(steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What our token consists of, the longest first."""
    found: dict[str, dict[str, Any]] = {}
    for step in steps:
        row = found.setdefault(
            step["workload"], {"workload": step["workload"], "steps": 0, "ms": 0.0}
        )
        row["steps"] += 1
        row["ms"] += step["ms"]
    return sorted(found.values(), key=lambda row: -row["ms"])


def _rate(ms: Interval, tokens: int) -> dict[str, float]:
    """Tokens per second of a text's part."""
    low, middle, high = (1e3 * tokens / x for x in (ms.high, ms.median, ms.low))
    return Interval(middle, low, high).to_json()


def file_report(result: Mapping[str, Any]) -> Report:
    """Rates with their intervals, memory, and how far the tokens agree."""
    run, rates = result["run"], result["tokens_per_s"]
    head = [
        "runtime",
        "prompt tokens/s",
        "decode tokens/s",
        "MiB",
        "same as native",
        "ties",
        "wrong",
    ]
    rows = []
    for name in rates["decode"]:
        check = result["native"][name]
        rows.append(
            [
                name,
                *(_with_interval(rates[part][name], 1) for part in ("prompt", "decode")),
                f"{result['facts'][name]['memory_bytes'] / 2**20:.0f}",
                *(str(check[word]) for word in ("same", "ties", "wrong")),
            ]
        )
    lines = []
    for part, ratio in result.get("ratio", {}).items():
        known = "too few rounds for an interval" if ratio is None else _with_interval(ratio, 2, "x")
        lines.append(f"{part}, ours over ONNX Runtime Web: {known}.")
    if "equal_tokens" in result:
        lines.append(
            f"Equal tokens from the first on: {result['equal_tokens']} of {run['tokens']}."
        )
    again = [name for name, same in result["same_each_round"].items() if not same]
    lines += [f"{name} made ANOTHER text from round to round." for name in again]
    about = (
        f"Prompt of {run['prompt_tokens']} seeded tokens, {run['tokens']} greedy ones, "
        f"{run['rounds']} rounds in turns, tuned for {run['seconds']:g} s; medians with intervals. "
        "Native: ONNX Runtime in full precision behind the same text."
    )
    where = "WebGPU" if result["backend"] == "webgpu" else threads_text(run["threads"])
    title = f"texts of {result['model']}, {where}"
    return Report(
        result, title, about, (Table(head, rows), "\n".join(lines), *_token_report(result["steps"]))
    )


def _token_report(steps: Sequence[Mapping[str, Any]]) -> tuple[Table, str]:
    """The steps of our decode plan, each by itself."""
    total = sum(row["ms"] for row in steps)
    rows = [
        [
            _short(row["workload"]),
            str(row["steps"]),
            f"{1e3 * row['ms'] / row['steps']:.1f}",
            f"{100 * row['ms'] / total:.1f}%",
        ]
        for row in steps[:_SHOWN]
    ]
    count = sum(row["steps"] for row in steps)
    note = f"Our decode plan, {count} steps, each by itself: {total:.2f} ms in all."
    return Table(["step", "times", "us each", "share"], rows), note


def _short(workload: str) -> str:
    name, _, rest = workload.partition(":")
    return f"{name[:40]}:{rest.partition('#')[0]}"


def _with_interval(of: Mapping[str, float], digits: int, unit: str = "") -> str:
    low, middle, high = (f"{of[k]:.{digits}f}{unit}" for k in ("low", "median", "high"))
    return f"{middle} ({low} to {high})"
