"""A stranger asks what sizes cost: a model is dropped, *Profile, Sizes* is used by mouse alone.

``python tests/walk/any_size.py MODEL --runs NAME`` (of lengths, texts or .npz beside it)
measures the sizes that stand for the file's, compares them with bundles for one size, tunes, and
leaves pictures at three sizes of the window, light and dark.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hands import Hands

SIZES = ((1280, 720), (1600, 1000), (800, 490))
IMPORT_S, MEASURE_S = 300.0, 600.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--runs", default="", help="a file beside the model")
    parser.add_argument("--out", type=Path, default=Path("out/walk"))
    given = parser.parse_args()
    import hands

    with hands.as_a_stranger() as home:
        walk = Walk(given.out.absolute(), given.model.absolute(), given.runs)
        try:
            hands.in_window(walk.go, Path(home) / "kernels.db", compares=True)
        except hands.NotReached as error:
            print(f"NOT REACHED  {error}")
            return 1
    return 0


class Walk:
    """The stations, in order."""

    def __init__(self, out: Path, model: Path, runs: str) -> None:
        self.out, self.model, self.runs = out, model, runs
        self.begun_s = time.monotonic()

    def reached(self, station: str, words: str) -> None:
        print(f"{time.monotonic() - self.begun_s:6.1f} s  {station}: {words}", flush=True)

    def go(self, hands: Hands) -> None:
        window = hands.window
        window.showNormal()
        hands.drop(self.model)
        hands.until("sizes are asked", lambda: window.opener.dialog is not None, 60)
        hands.click(window.opener.dialog.open_button)
        hands.until("it is open", lambda: window.session.state.model is not None, IMPORT_S)
        panel = window.panel("profile")
        hands.until("it is profiled", lambda: panel.findings.buttons, 120)
        hands.until("it is compared", lambda: window.verdict.resting, MEASURE_S)
        hands.idle("nothing runs", MEASURE_S)
        view, bar = panel.sizes, panel.tabs.tabBar()
        place = panel.tabs.indexOf(view)
        hands.click(bar, bar.tabRect(place).center())
        self.reached("proposed", f"{view.dimension.currentText()}: {view.field.text()}")
        self.shoot(hands, "asked")
        if self.runs:
            hands.click(view.files_button)
            hands.open_file(self.runs)
            hands.until("runs are known", lambda: view.runs.text(), 60)
            self.reached("recorded", f"{view.runs.text()}; {view.caption.text()}")
        for button in (view.button, view.tune_button):
            hands.click(view.alone)  # with the first alone: it takes an import of each size
            hands.click(button)
            hands.wait(500)
            hands.idle("the sizes are measured", MEASURE_S)
            self.reached(button.text(), view.caption.text())
            rows = range(view.table.model.rowCount())
            print(view.table.as_text(rows, "markdown"), flush=True)
            self.shoot(hands, "tuned" if button is view.tune_button else "measured")

    def shoot(self, hands: Hands, name: str) -> None:
        window = hands.window
        for width, height in SIZES:
            window.resize(width, height)
            hands.wait(200)
            window.docks.reset()
            window.docks.show("profile")
            for theme in ("dark", "light"):
                window.menus.choose_theme(theme)
                hands.wait(400)
                file = f"sizes-{self.model.stem}-{name}-{width}x{height}-{theme}.png"
                hands.picture(self.out / file)


if __name__ == "__main__":
    sys.exit(main())
