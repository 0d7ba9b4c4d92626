"""Downloads of a bundle that go wrong, in a real browser: is the answer ever a wrong one?

``make downloads``: a page opens the bundle again and again from a server here that cuts connections
at random bytes, sends other bytes or another bundle, or whose kept files were lost or damaged. Each
visit must end in the very bytes of an undisturbed one, or in one sentence of the engine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from server import Site, served

from nnjit_studio.doctor.deployment.drivers import Evaluate, open_page
from nnjit_studio.engine.browsers import browsers


def call(evaluate: Evaluate, call: str) -> Any:
    """What a function of the page says."""
    return evaluate(f'import("/page.js").then((page) => page.{call})')


@dataclass
class Tally:
    """Of one kind of fault."""

    name: str
    faults: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    sentences: Counter[str] = field(default_factory=Counter)

    def row(self) -> str:
        return (
            f"| {self.name} | {self.ends.total()} | {self.faults} | {self.ends['right']} | "
            f"{self.ends['sentence']} | {self.ends['wrong']} | {self.ends['no sentence']} |"
        )


@dataclass(frozen=True)
class Campaign:
    """Visits of one page; ``answers`` are those of the undisturbed bundles."""

    evaluate: Evaluate
    site: Site
    rng: random.Random
    bundles: tuple[Path, Path]
    answers: frozenset[str]

    def visit(self, tally: Tally, fresh: bool, answers: frozenset[str] | None = None) -> None:
        told = call(self.evaluate, f"visit({json.dumps(fresh)})")
        if "answer" in told:
            right = told["answer"] in (self.answers if answers is None else answers)
            tally.ends["right" if right else "wrong"] += 1
            return
        tally.ends["sentence" if told["kind"] == "EngineError" else "no sentence"] += 1
        text = re.sub(r"[0-9a-f]{64}|\d+", "N", told["error"])
        tally.sentences[re.sub(r"\S+/\S+", "FILE", text)] += 1

    def reset(self) -> None:
        fresh = Site(self.bundles[0])
        for name in ("bundle", "ranges", "cuts", "change", "after_requests", "sent", "made"):
            setattr(self.site, name, getattr(fresh, name))

    def cuts(self, visits: int, ranges: bool) -> Tally:
        """One to five connections of each visit end at any byte of what is sent."""
        tally = Tally(f"connections cut, server {'with' if ranges else 'without'} ranges")
        size = sum(path.stat().st_size for path in self.bundles[0].rglob("*") if path.is_file())
        for _ in range(visits):
            self.reset()
            self.site.ranges = ranges
            self.site.cuts = sorted(self.rng.randrange(size) for _ in range(self.rng.randint(1, 5)))
            self.visit(tally, True)
            tally.faults += self.site.made
        self.reset()
        return tally

    def bytes_changed(self, visits: int, what: str) -> Tally:
        """A file of the server has a bit flipped, or ends early."""
        tally = Tally(f"a file of the server {what}")
        names = [str(p.relative_to(self.bundles[0])) for p in self.bundles[0].rglob("*.*")]
        for _ in range(visits):
            self.reset()
            victim = self.rng.choice(names)
            spoil = _flipped if what == "has a bit flipped" else _shortened
            content = spoil((self.bundles[0] / victim).read_bytes(), self.rng)
            self.site.change = lambda name, old, v=victim, new=content: new if name == v else old
            self.visit(tally, True)
            tally.faults += 1
        self.reset()
        return tally

    def kept_spoiled(self, visits: int, what: str) -> Tally:
        """Some of what the browser kept is lost or damaged before a second visit."""
        tally = Tally(f"kept files {what}")
        self.visit(Tally(""), True)
        for _ in range(visits):
            damage = json.dumps(what == "damaged")
            tally.faults += call(self.evaluate, f"spoil(0.3, {damage})")
            self.visit(tally, False)
        return tally

    def replaced(self, visits: int, answers: frozenset[str]) -> Tally:
        """The server has another bundle after some requests of a visit."""
        tally = Tally("bundle replaced while it comes")
        for number in range(visits):
            self.reset()
            old, new = self.bundles[:: 1 if number % 2 else -1]
            self.site.bundle = old
            self.site.after_requests = (self.rng.randrange(12), new)
            self.visit(tally, number % 4 < 2, answers)
            tally.faults += self.site.after_requests is None
        self.reset()
        return tally

    def full(self, visits: int) -> Tally:
        """The browser's store refuses what it should keep."""
        tally = Tally("the browser's store is full")
        call(self.evaluate, "fill(0.5)")
        for _ in range(visits):
            self.visit(tally, True)
            tally.faults += 1
        call(self.evaluate, "fill(0)")
        return tally


def _flipped(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _shortened(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def answer_of(evaluate: Evaluate) -> str:
    """Of an undisturbed visit.

    Raises
    ------
    SystemExit
        When even that ends in an error.
    """
    told = call(evaluate, "visit(true)")
    if "answer" not in told:
        raise SystemExit(f"The undisturbed visit failed: {told['error']}")
    return str(told["answer"])


def exported(model: Path, folder: Path) -> tuple[Path, Path]:
    """Bundles of a model and of one whose largest weight is doubled, unpacked."""
    other = onnx.load(model)
    largest = max(other.graph.initializer, key=lambda weight: len(weight.raw_data))
    doubled = numpy_helper.to_array(largest) * np.float32(2)
    largest.CopyFrom(numpy_helper.from_array(doubled, largest.name))
    onnx.save(other, folder / "other.onnx")
    nnjit = Path(sys.executable).with_name("nnjit")
    for source, name in ((model, "one"), (folder / "other.onnx", "other")):
        archive = folder / f"{name}.zip"
        subprocess.run([nnjit, "export", source, "-o", archive], check=True, capture_output=True)
        shutil.unpack_archive(archive, folder / name)
    return folder / "one", folder / "other"


def campaign(options: argparse.Namespace, folder: Path) -> list[Tally]:
    bundles = exported(options.model, folder)
    site = Site(bundles[0])
    with served(site) as url, open_page(browsers.find(options.target), url) as evaluate:
        first = answer_of(evaluate)
        site.bundle = bundles[1]
        second = answer_of(evaluate)
        if first == second:
            raise SystemExit("Both bundles answer alike: its largest weight changes nothing.")
        both = frozenset((first, second))
        made = Campaign(evaluate, site, random.Random(options.seed), bundles, frozenset((first,)))
        made.reset()
        visits = options.visits
        return [
            made.cuts(visits, ranges=True),
            made.cuts(visits, ranges=False),
            made.bytes_changed(visits, "has a bit flipped"),
            made.bytes_changed(visits, "ends early"),
            made.kept_spoiled(visits, "lost"),
            made.kept_spoiled(visits, "damaged"),
            made.replaced(visits, both),
            made.full(visits),
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--target", default="chromium")
    parser.add_argument("--visits", type=int, default=20, help="of each kind of fault")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tallies = campaign(options, Path(folder))
    load = os.getloadavg()[0]
    print(
        f"## {date.today()}: downloads that go wrong, {options.target}, load average {load:.1f}\n"
    )
    print("| fault | visits | faults | right | one sentence | wrong | no sentence |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    print("\n".join(tally.row() for tally in tallies))
    for text, times in sum((tally.sentences for tally in tallies), Counter[str]()).most_common():
        print(f"- {times} times: {text}")
    return int(any(tally.ends["wrong"] + tally.ends["no sentence"] for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
