"""Options, scratch folder and publication of the bench verbs."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.bench.report import Report, append
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
    help="Where the peers' npm packages are; by default here or with the sources.",
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
class PeerOptions:
    """The peers that a verb compares with, the browser, and where the result goes."""

    peers: str
    target: str
    node_modules: Path | None
    markdown: Path | None
    no_sandbox: bool
    as_json: bool

    def browser(self, folder: Path, gpu: str = "") -> BenchOptions:
        """Options of a benchmark's page without peers."""
        published = self.markdown is not None
        return BenchOptions(
            folder, self.target, no_sandbox=self.no_sandbox, gpu=gpu, published=published
        )


def peer_options(default: str, choice: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that make a :class:`PeerOptions`, which the verb gets as ``given``."""
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
            given = PeerOptions(peers, target, node_modules, markdown, no_sandbox, as_json)
            verb(**own, given=given)

        return functools.reduce(lambda made, option: option(made), reversed(options), told)

    return decorate


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one run: its database too, so that nothing known colours the tuning."""
    with tempfile.TemporaryDirectory(prefix="nnjit-bench-") as folder:
        yield Path(folder)


def publish(
    result: dict[str, Any],
    report: Callable[[dict[str, Any]], Report],
    markdown: Path | None,
    as_json: bool,
) -> None:
    """Append the result to a file of results if one is given, and print it."""
    if markdown is not None:
        append(markdown, report(result).markdown())
        note(f"appended to {markdown}")
    if as_json:
        print_json(result)
    else:
        click.echo(report(result).text())
