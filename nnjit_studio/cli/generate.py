"""Text generation on the command line: ids in, one line a token out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nnjit_studio.cli.common import (
    backend_options,
    database_option,
    json_option,
    model_argument,
    note,
    print_json,
    sandbox_option,
    target_option,
    threads_option,
    workbench,
)
from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.model import GenerationRequest, Sampling, Token


@click.command()
@model_argument
@click.option("--ids", default="", help="Token ids of the prompt: 1,2,3.")
@click.option(
    "--ids-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The same in a file, divided by commas or white space.",
)
@click.option("--tokens", default=64, show_default=True, type=click.IntRange(1), help="New ones.")
@click.option("--top-k", default=1, show_default=True, type=click.IntRange(1), help="1 is greedy.")
@click.option(
    "--temperature", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True)
)
@click.option("--seed", default=0, show_default=True, type=int)
@click.option("--stop", "stop", default="", help="Token ids that end the text.")
@click.option("--capacity", type=click.IntRange(2), help="Tokens that the cache holds.")
@click.option(
    "--prefill-rows",
    default=128,
    show_default=True,
    type=click.IntRange(1),
    help="Tokens of a prompt that are read at once; 1 reads one after another.",
)
@click.option(
    "--prefill",
    type=click.Path(path_type=Path, dir_okay=False),
    help="An ONNX model of the prefill, for a decoder of fixed shapes.",
)
@click.option("--tune", "seconds", type=click.FloatRange(0), help="Tune both plans first.")
@click.option("--bundle", type=click.Path(path_type=Path), help="Write a bundle that makes text.")
@click.option("--check", is_flag=True, help="Compare each token with native ONNX Runtime.")
@click.option(
    "--soak",
    type=click.FloatRange(0, min_open=True),
    help="Make text after text for so many seconds, each with a prompt of its own.",
)
@click.option(
    "--markdown",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Append the figures of --soak to this file, as a dated section.",
)
@target_option
@backend_options
@threads_option
@sandbox_option
@database_option
@json_option
def generate(
    model: Path,
    ids: str,
    ids_file: Path | None,
    tokens: int,
    top_k: int,
    temperature: float,
    seed: int,
    stop: str,
    capacity: int | None,
    prefill_rows: int,
    prefill: Path | None,
    seconds: float | None,
    bundle: Path | None,
    check: bool,
    soak: float | None,
    markdown: Path | None,
    target: str,
    backend: str,
    gpu: str,
    threads: int,
    no_sandbox: bool,
    database: Path | None,
    as_json: bool,
) -> None:
    """Go on with a text: MODEL is a decoder that was exported with past keys and values.

    Takes and prints token ids; tokenising is the caller's. With --check, greedy tokens must be
    those of native ONNX Runtime, but for ties.
    """
    from nnjit_studio.bench.llm.soak import soak_markdown, soak_text
    from nnjit_studio.bench.report import append
    from nnjit_studio.generation.prompts import parse_ids
    from nnjit_studio.generation.texts import collect, compare, token_json, tokens_per_s
    from nnjit_studio.workbench.jobs import export

    prompt = [] if soak is not None else prompt_ids(ids, ids_file)
    if check and top_k > 1:
        raise UserError("Only greedy tokens can be compared.", "Leave out --top-k or --check.")
    request = GenerationRequest(capacity, prefill_rows, str(prefill) if prefill else "")
    sampling = Sampling(tokens, top_k, temperature, seed, tuple(parse_ids(stop, "--stop")))
    with workbench(target, database, no_sandbox, threads, backend=backend, gpu=gpu) as (bench, run):

        def show(token: Token, index: int) -> None:
            if as_json:
                print_json(token_json(token, index))
            else:
                click.echo(f"{token.id} ", nl=False)

        def work() -> dict[str, Any]:
            opened = bench.open_decoder(model, request, note)
            if not opened.other_plans and len(prompt) > 1:
                note("The model has no prefill plan: the prompt is read token by token.")
            if seconds is not None:
                tune(bench, seconds, as_json)
            bench.model.register_best()
            if soak is not None:
                return run_soak(bench, soak, check, as_json)
            made, ended = collect(bench.model.generate(prompt, sampling), show)
            if not as_json:
                click.echo()
            summary = {
                "event": "summary",
                "tokens": ended.tokens,
                "reason": ended.reason,
                "prompt_tokens": len(prompt),
                "prompt_ms": made[0].ms,
                "tokens_per_s": tokens_per_s(made),
                "memory_bytes": ended.memory_bytes,
                "capacity": opened.generation.capacity,
            }
            if bundle is not None:
                note(f"wrote {export(bench.model, bundle)}")
            if check:
                bench.compiler.native_decoder(model, prompt)
                choices = bench.compiler.native_tokens([t.id for t in made])
                summary["check"] = compare(made, choices)
            return summary

        summary = run(work)
    if as_json:
        print_json(summary)
    else:
        click.echo(as_text(summary) if soak is None else soak_text(summary))
    if markdown is not None and soak is not None:
        append(markdown, soak_markdown(summary))
        note(f"appended to {markdown}")
    if check and summary["check"]["wrong"]:
        raise NnjitError(
            f"{summary['check']['wrong']} of {summary['tokens']} tokens are not those of native "
            "ONNX Runtime.",
            "Report this together with the model.",
        )


def run_soak(bench: Any, seconds: float, check: bool, as_json: bool) -> dict[str, Any]:
    """The long run, one line a text; its summary."""
    from nnjit_studio.bench.llm.soak import soak as texts

    last: dict[str, Any] = {}
    for last in texts(bench, seconds, check):
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


def tune(bench: Any, seconds: float, as_json: bool) -> None:
    """Tune both plans, with their events as JSON lines or their rounds as notes."""
    from nnjit_studio.tuner.events import Failed, Finished

    for event in bench.tuning.start(seconds):
        plan, document = bench.tuning.program or "decode", event.to_json()
        if as_json:
            print_json({"plan": plan, **document})
        elif isinstance(event, Finished):
            ms = document["model_ms"]
            note(f"{plan}: {ms['before']:.2f} ms before, {ms['after']:.2f} ms after")
        if isinstance(event, Failed):
            raise NnjitError(event.error["error"], event.error["hint"])


def prompt_ids(text: str, path: Path | None) -> list[int]:
    """The prompt, from its option or its file."""
    from nnjit_studio.generation.prompts import parse_ids, read_ids

    if (path is None) == (not text):
        raise UserError("The prompt is given once.", "Use --ids 1,2,3 or --ids-file FILE.")
    ids = read_ids(path) if path is not None else parse_ids(text, "--ids")
    if not ids:
        raise UserError("The prompt is empty.", "Give at least one token id.")
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
