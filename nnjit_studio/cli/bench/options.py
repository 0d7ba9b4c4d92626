"""Options of the bench verbs, the workbench that they measure on, and how they publish."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.bench.peers.kernels import PEERS, find_node_modules, parse_peers
from nnjit_studio.bench.report import Report, append
from nnjit_studio.cli.common import JSON, answer, note
from nnjit_studio.cli.running import AS_IT_IS, Running, workbench
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import FILE, group, option, same
from nnjit_studio.errors import UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.records.target_options import TargetOptions

MARKDOWN: Any = option(None, "Append the results to this file, as a dated section.", type=FILE)
BROWSER: Any = option("chromium", "A browser, or its path.", flag="--target")
ADAPTER: Any = option(
    "hardware",
    "Adapter for WebGPU; results of a software one say nothing about a GPU. "
    "lab: a GPU with features that browsers hide behind switches.",
    flag="--gpu",
    type=click.Choice(("hardware", "software", "lab")),
)


@dataclass(frozen=True)
class Output:
    """Where the result of a verb goes."""

    markdown: Path | None = same(MARKDOWN)
    as_json: bool = same(JSON)


@dataclass(frozen=True)
class PeerOptions:
    """The peers that a verb compares with, and the browser where it does."""

    peers: str
    target: TargetOptions
    node_modules: Path | None
    output: Output

    def page(
        self,
        parse: Callable[[str], Sequence[str]] = parse_peers,
        packages: Mapping[str, Sequence[str]] = PEERS,
        gpu: str = "",
    ) -> tuple[Callable[[Path], BenchOptions], dict[str, str]]:
        """Options of a benchmark's page in a folder, and the versions of the peers' packages.

        Raises
        ------
        UserError
            When there is no such peer, or its package is not installed.
        """
        peers = tuple(parse(self.peers))
        node_modules, versions = find_node_modules(peers, self.node_modules, packages)
        made = partial(
            BenchOptions,
            target=self.target.target,
            peers=peers,
            node_modules=node_modules,
            no_sandbox=self.target.no_sandbox,
            gpu=gpu,
            published=self.output.markdown is not None,
        )
        return made, versions


def peer_options(default: str, choice: str) -> Any:
    """Makes :class:`PeerOptions`."""
    fields = {
        "peers": option(default, f"{choice}, or none."),
        "target": BROWSER,
        "node_modules": option(
            None,
            "Where the peers' npm packages are; by default here or with the sources.",
            type=click.Path(path_type=Path, file_okay=False),
        ),
        "markdown": MARKDOWN,
        "no_sandbox": OPTIONS["no_sandbox"],
        "as_json": JSON,
    }
    return group(_in_a_browser, fields)


def _in_a_browser(
    peers: str,
    target: str,
    node_modules: Path | None,
    markdown: Path | None,
    no_sandbox: bool,
    as_json: bool,
) -> PeerOptions:
    if target == "embedded":
        raise UserError(
            "The peers are measured in a browser, not in the embedded view.",
            "Use --target chromium.",
        )
    browser = TargetOptions(target, no_sandbox=no_sandbox)
    return PeerOptions(peers, browser, node_modules, Output(markdown, as_json))


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one run: its database too, so that nothing known colours the tuning."""
    with tempfile.TemporaryDirectory(prefix="nnjit-bench-") as folder:
        yield Path(folder)


def cold(
    folder: Path, target: TargetOptions, importing: ImportOptions = AS_IT_IS
) -> AbstractContextManager[Running]:
    """A workbench whose database in a scratch folder knows nothing yet."""
    return workbench(replace(target, database=folder / "kernels.db"), importing)


def publish(
    result: dict[str, Any], report: Callable[[dict[str, Any]], Report], output: Output
) -> None:
    """Append the result to a file of results if one is given, and print it."""
    if output.markdown is not None:
        append(output.markdown, report(result).markdown())
        note(f"appended to {output.markdown}")
    answer(output.as_json, result, report(result).text())
