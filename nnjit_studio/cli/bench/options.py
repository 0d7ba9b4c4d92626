"""What the bench verbs share: their options, their scratch folder, how they publish."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from nnjit_studio.cli.common import json_option, note, print_json, sandbox_option
from nnjit_studio.errors import UserError

markdown_option = click.option(
    "--markdown",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Append the results to this file, as a dated section.",
)
browser_option = click.option(
    "--target", default="chromium", show_default=True, help="A browser, or its path."
)
node_modules_option = click.option(
    "--node-modules",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the peers' npm packages are; by default here or beside the sources.",
)

adapter_option = click.option(
    "--gpu",
    type=click.Choice(("hardware", "software", "lab")),
    default="hardware",
    show_default=True,
    help="Which adapter WebGPU is to have; a software one says nothing of a GPU. "
    "lab: a GPU with features that browsers keep behind switches.",
)


@dataclass(frozen=True)
class Beside:
    """Beside whom a verb measures, in which browser, and where its result goes."""

    peers: str
    target: str
    node_modules: Path | None
    markdown: Path | None
    no_sandbox: bool
    as_json: bool


def peer_options(default: str, choice: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that make a :class:`Beside`, which the verb gets as its last argument."""
    peers = click.option("--peers", default=default, show_default=True, help=f"{choice}, or none.")
    options = (
        peers, browser_option, node_modules_option, markdown_option, sandbox_option, json_option,
    )  # fmt: skip

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def told(
            *,
            peers: str,
            target: str,
            node_modules: Path | None,
            markdown: Path | None,
            no_sandbox: bool,
            as_json: bool,
            **own: Any,
        ) -> None:
            if target == "embedded":
                raise UserError(
                    "The peers are measured in a browser, not in the embedded view.",
                    "Use --target chromium.",
                )
            verb(**own, beside=Beside(peers, target, node_modules, markdown, no_sandbox, as_json))

        return functools.reduce(lambda made, option: option(made), reversed(options), told)

    return decorate


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one run: its database too, so that nothing known colours the tuning."""
    with tempfile.TemporaryDirectory(prefix="nnjit-bench-") as folder:
        yield Path(folder)


def publish(
    result: dict[str, Any],
    text: Callable[[dict[str, Any]], str],
    section: Callable[[dict[str, Any]], str],
    markdown: Path | None,
    as_json: bool,
) -> None:
    """Append the result to a file of results if one is given, and print it."""
    from nnjit_studio.bench.tables import append

    if markdown is not None:
        append(markdown, section(result))
        note(f"appended to {markdown}")
    if as_json:
        print_json(result)
    else:
        click.echo(text(result))
