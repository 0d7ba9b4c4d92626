"""A stranger with a model of their own: dropped, asked for its sizes, opened, its profile seen.

``make walk-own`` fetches the pinned wheel of PaddleOCR's recogniser, whose batch, height and width
are open, and prints the seconds of each station. No key but Enter, no command line.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hands import Hands

STARTED_S = time.monotonic()
IMPORT_S = 300.0
"""The import of 860 nodes, on a busy machine."""
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
        try:
            hands.in_window(Walk(out, model).go, Path(home) / "kernels.db")
        except hands.NotReached as error:
            print(f"NOT REACHED  {error}")
            return 1
    return 0


def fetched(out: Path) -> Path:
    """The recogniser from its wheel; the only step that needs a network."""
    sys.path[:0] = [str(Path(__file__).parents[2] / "benchmarks" / "world")]
    from world import fetch

    return next(path for path in fetch(out.parent / "world") if path.name == MODEL)


class Walk:
    """The stations, in order; each is told when it was really reached."""

    def __init__(self, out: Path, model: Path) -> None:
        self.out, self.model = out, model
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


if __name__ == "__main__":
    sys.exit(main())
