"""The page in which a runtime serves a model while its kernels are exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.pages.opening import open_page
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.foreign_wasm.live.donors import Block, blocks_of
from nnjit_studio.records import Kernel

START_TIMEOUT_S = 180.0
ANSWER_TIMEOUT_S = 600.0
SETTLE = 1
"""Inferences after a swap that are not timed: caches, and the engine's last tier."""
EXACT_TIER = "simd128"


@dataclass(frozen=True)
class Checked:
    """Answers of the model that were looked at; ``worst`` as a share of the largest number.

    ``ms`` is of the last one.
    """

    runs: int = 0
    wrong: int = 0
    worst: float = 0.0
    ms: float = 0.0


@dataclass(frozen=True)
class Proof:
    """A donor against the originals on random memory; ``worst`` as a share of the bound."""

    cases: int
    identical: int
    worst: float | None
    error: str


class LivePage:
    """An open session; every call returns when the page has done it.

    Attributes
    ----------
    opened
        What the page told when its session was there.
    checked
        All answers of the model until now.
    """

    def __init__(self, server: PageServer, folder: Path, opened: dict[str, Any], flags: str):
        self._server, self._folder = server, folder
        self._slots: dict[str, int] = {}
        self.opened, self.flags = opened, flags
        self.checked = Checked()

    def serve(self, runs: int) -> list[float]:
        """So many inferences with the chosen kernels; ms of each."""
        return list(map(float, self._ask("serve", runs=runs)["ms"]))

    def record(self) -> list[Block]:
        """The blocks that one inference asks for, most work first."""
        return blocks_of(self._ask("record"))

    def add(self, kernel: Kernel) -> Proof:
        """Prove a donor against the originals; one that is right gets a slot."""
        name = f"{kernel.sha256[:16]}.wasm"
        (self._folder / name).write_bytes(kernel.data)
        exact = kernel.tier == EXACT_TIER
        answer = self._ask("add", name=kernel.sha256, file=f"files/{name}", exact=exact)
        if answer["slot"]:
            self._slots[kernel.sha256] = answer["slot"]
        return Proof(**answer["proof"])

    def rate(self, kernels: Sequence[Kernel], blocks: Sequence[Block], ms: float) -> list[float]:
        """Ms of the model's products with each, on a memory of their own; ``ms`` for a sample."""
        sizes = [b.to_json() for b in blocks]
        names = [k.sha256 if k.candidate else "original" for k in kernels]
        answer = self._ask("rate", names=names, blocks=sizes, sample_ms=ms)["ms"]
        return [float(answer[name]) for name in names]

    def choose(self, kernel: Kernel) -> None:
        """Serve with this kernel from the next inference on."""
        self._ask("choose", slot=self._slots[kernel.sha256])

    def race(self, kernels: Sequence[Kernel], rounds: int, sample_ms: float) -> list[list[float]]:
        """Inferences with each kernel in turns; ms of each sample."""
        slots = [self._slots[k.sha256] for k in kernels]
        answer = self._ask("race", slots=slots, rounds=rounds, sample_ms=sample_ms, settle=SETTLE)
        return [list(map(float, samples)) for samples in answer["samples"]]

    def soak(self, kernels: Sequence[Kernel], swaps: int) -> float:
        """A swap before each of so many inferences; seconds."""
        slots = [self._slots[k.sha256] for k in kernels]
        return float(self._ask("soak", slots=slots, swaps=swaps)["seconds"])

    def know(self, kernel: Kernel, slot: int) -> None:
        """A kernel that is in the table already."""
        self._slots[kernel.sha256] = slot

    def _ask(self, do: str, **given: Any) -> dict[str, Any]:
        answer = self._server.ask({"do": do, **given}, ANSWER_TIMEOUT_S)
        self.checked = Checked(**answer["checked"])
        return answer


@contextmanager
def live_page(
    target: str, folder: Path, runtime: Path, no_sandbox: bool = False
) -> Iterator[LivePage]:
    """A browser with the session that ``folder/job.json`` describes.

    Parameters
    ----------
    runtime
        Folder of the runtime's library, which the page reads as ``runtime/``.

    Raises
    ------
    TargetError
        When the browser is not there, or does not start.
    PageError
        When the session does not open.
    """
    with (
        PageServer({"files": folder, "runtime": runtime}) as server,
        open_page(server, browsers.find(target), "page.html", no_sandbox, "live") as running,
    ):
        opened = server.next_message(START_TIMEOUT_S)
        yield LivePage(server, folder, opened, running.flags)


def refusal(proof: Proof, tier: str) -> str:
    """Why a donor may not serve; empty when it may."""
    if proof.error:
        return proof.error
    if tier == EXACT_TIER and proof.identical < proof.cases:
        return f"{proof.cases - proof.identical} of {proof.cases} cases differ from the original"
    if proof.worst is None or proof.worst > 1:
        return "it differs from the original by more than rounding allows"
    return ""
