"""Text generation on the command line: ids in, one line a token out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from nnjit_studio.bench.llm import soak as long_run
from nnjit_studio.bench.report import append
from nnjit_studio.cli.common import JSON, MODEL, answer, note, print_json
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.running import workbench
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import AT_LEAST_0, COUNT, FILE, POSITIVE, group, option, verb
from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.generation.beside import Spelling, Tokenizer, stop_tokens
from nnjit_studio.generation.prompts import parse_ids, read_ids
from nnjit_studio.generation.texts import collect, compare, token_json, tokens_per_s
from nnjit_studio.model import GenerationRequest, ImportOptions, Sampling, Token
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.tuner.events import Failed, Finished
from nnjit_studio.workbench import Workbench, jobs


@dataclass(frozen=True)
class TextOptions:
    """The prompt, the decoder's plans, how to go on, and what else is done with the text."""

    text: str = option(
        "", "The prompt as text, by the tokenizer.json next to the model.", flag="--prompt"
    )
    ids: str = option("", "Token ids of the prompt: 1,2,3.")
    ids_file: Path | None = option(
        None, "A file of prompt ids, separated by commas or white space.", type=FILE
    )
    tokens: int = option(64, "Tokens to generate.", type=COUNT)
    top_k: int = option(1, "Sample among so many most likely tokens; 1 is greedy.", type=COUNT)
    top_p: float = option(
        1.0,
        "Sample among the likeliest that have this share together.",
        type=click.FloatRange(0, 1, min_open=True),
    )
    temperature: float = option(1.0, type=POSITIVE)
    repetition_penalty: float = option(
        1.0, "Above 1, tokens that the text has become less likely.", type=POSITIVE
    )
    seed: int = option(0, show_default=True)
    stop: str = option(
        "", "Token ids that end the text; those of the model's configuration by default."
    )
    capacity: int | None = option(None, "Tokens that the KV cache holds.", type=click.IntRange(2))
    prefill_rows: int = option(
        128, "Prompt tokens that are read at once; 1 reads them one by one.", type=COUNT
    )
    prefill: Path | None = option(
        None, "An ONNX model for the prefill, if the decoder has fixed shapes.", type=FILE
    )
    seconds: float | None = option(
        None,
        "Tune decode and prefill first, for so many seconds in all.",
        flag="--tune",
        type=AT_LEAST_0,
    )
    bundle: Path | None = option(None, "Write a bundle that generates text.")
    check: bool = option(False, "Compare each token with native ONNX Runtime.")
    soak: float | None = option(
        None,
        "Generate texts for so many seconds, each from another prompt.",
        type=POSITIVE,
    )
    markdown: Path | None = option(
        None, "Append the results of --soak to this file, as a dated section.", type=FILE
    )

    def prompt(self, tokenizer: Tokenizer | None) -> list[int]:
        if self.soak is not None:
            return []
        if tokenizer is not None and not self.ids and self.ids_file is None:
            return _not_empty(tokenizer.encode(self.text))
        return prompt_ids(self.ids, self.ids_file, self.text)

    def sampling(self, model: Path) -> Sampling:
        stop = tuple(parse_ids(self.stop, "--stop")) if self.stop else stop_tokens(model)
        draws = self.top_k, self.temperature, self.seed
        sampling = Sampling(self.tokens, *draws, stop, self.top_p, self.repetition_penalty)
        if self.check and not sampling.greedy:
            raise UserError(
                "Only greedy tokens can be compared.",
                "Leave out --top-k and --repetition-penalty, or --check.",
            )
        return sampling

    def request(self) -> GenerationRequest:
        prefill = str(self.prefill) if self.prefill else ""
        return GenerationRequest(self.capacity, self.prefill_rows, prefill)


@verb()
def generate(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    options: TextOptions = group(TextOptions),
    target: TargetOptions = target_options(
        "target", "backend", "gpu", "threads", "no_sandbox", "database"
    ),
    as_json: bool = JSON,
) -> None:
    """Generate text with MODEL, a decoder that was exported with past keys and values.

    Takes and prints token ids, or text with --prompt. With --check, greedy tokens must equal
    those of native ONNX Runtime, except for ties.
    """
    tokenizer = Tokenizer(model) if options.text else None
    prompt, sampling = options.prompt(tokenizer), options.sampling(model)
    with workbench(target, importing) as opened:
        bench = opened.bench

        def work() -> dict[str, Any]:
            decoder = bench.open_decoder(model, options.request(), note)
            if not decoder.other_plans and len(prompt) > 1:
                note("The model has no prefill plan: the prompt is read token by token.")
            if options.seconds is not None:
                tune(bench, options.seconds, as_json)
            bench.model.register_best()
            if options.soak is not None:
                return run_soak(bench, options.soak, options.check, as_json)
            spelling = Spelling(tokenizer) if tokenizer else None
            return make_text(bench, prompt, sampling, Shown(options, as_json, spelling))

        summary = opened.run(work)
    text = as_text if options.soak is None else long_run.soak_text
    answer(as_json, summary, text(summary))
    if options.markdown is not None and options.soak is not None:
        append(options.markdown, long_run.soak_markdown(summary))
        note(f"appended to {options.markdown}")
    if options.check and summary["check"]["wrong"]:
        raise NnjitError(
            f"{summary['check']['wrong']} of {summary['tokens']} tokens are not those of native "
            "ONNX Runtime.",
            "Report this together with the model.",
        )


@dataclass(frozen=True)
class Shown:
    """How a text is shown, and what else is done with it."""

    options: TextOptions
    as_json: bool
    spelling: Spelling | None

    def token(self, token: Token, index: int) -> None:
        new = self.spelling.add(token.id) if self.spelling else f"{token.id} "
        if self.as_json:
            print_json(token_json(token, index))
        else:
            click.echo(new, nl=False)


def make_text(
    bench: Workbench, prompt: list[int], sampling: Sampling, shown: Shown
) -> dict[str, Any]:
    """One text, each token as it comes; its summary."""
    options = shown.options
    made, ended = collect(bench.model.generate(prompt, sampling), shown.token)
    if not shown.as_json:
        click.echo()
    summary: dict[str, Any] = {
        "event": "summary",
        "tokens": ended.tokens,
        "reason": ended.reason,
        "prompt_tokens": len(prompt),
        "prompt_ms": made[0].ms,
        "tokens_per_s": tokens_per_s(made),
        "memory_bytes": ended.memory_bytes,
        "capacity": bench.model.decoder.capacity,
    }
    if shown.spelling is not None:
        summary["text"] = shown.spelling.text
    if options.bundle is not None:
        note(f"wrote {jobs.export(bench.model, options.bundle)}")
    if options.check:
        opened = bench.model.current
        bench.process.native_decoder(opened.path, prompt, opened.plan.half_cache)
        summary["check"] = compare(made, bench.process.native_tokens([t.id for t in made]))
    return summary


def run_soak(bench: Workbench, seconds: float, check: bool, as_json: bool) -> dict[str, Any]:
    """The long run, one line a text; its summary."""
    last: dict[str, Any] = {}
    for last in long_run.soak(bench, seconds, check):
        if last["event"] == "summary":
            continue
        if as_json:
            print_json(last)
        else:
            mib = (last["resident_bytes"] or 0) / 2**20
            wrong = f", {last['check']['wrong']} wrong" if check else ""
            note(
                f"{last['t_s']:6.1f} s  {last['tokens']} tokens, {last['tokens_per_s']:.1f} a "
                f"second, renderer {mib:.0f} MiB{wrong}"
            )
    return last


def tune(bench: Workbench, seconds: float, as_json: bool) -> None:
    """Tune both plans, with their events as JSON lines or their rounds as notes."""
    for event in bench.tuning.start(seconds):
        plan, document = bench.tuning.program or "decode", event.to_json()
        if as_json:
            print_json({"plan": plan, **document})
        elif isinstance(event, Finished):
            ms = document["model_ms"]
            note(f"{plan}: {ms['before']:.2f} ms before, {ms['after']:.2f} ms after")
        if isinstance(event, Failed):
            raise event.cause


def prompt_ids(ids: str, path: Path | None, text: str = "") -> list[int]:
    """The prompt, from its option or its file."""
    if text or (path is None) == (not ids):
        raise UserError(
            "The prompt is given once.", "Use --prompt TEXT, --ids 1,2,3 or --ids-file FILE."
        )
    return _not_empty(read_ids(path) if path is not None else parse_ids(ids, "--ids"))


def _not_empty(ids: list[int]) -> list[int]:
    if not ids:
        raise UserError("The prompt is empty.", "Give at least one token.")
    return ids


def as_text(summary: dict[str, Any]) -> str:
    """The summary as one line, two with a check."""
    text = (
        f"{summary['tokens']} tokens ({summary['reason']}), {summary['tokens_per_s']:.1f} tokens/s "
        f"behind a prompt of {summary['prompt_tokens']} in {summary['prompt_ms']:.1f} ms"
    )
    if "check" in summary:
        check = summary["check"]
        text += (
            f"\nnative ONNX Runtime: {check['same']} the same, {check['ties']} ties, "
            f"{check['wrong']} wrong"
        )
    return text
