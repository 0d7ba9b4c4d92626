"""A stranger asks what sizes cost: a model is dropped, *Profile, Sizes* is used by mouse alone.

``python tests/walk/any_size.py MODEL --runs NAME`` (of lengths, texts or .npz beside it)
measures the sizes that stand for the file's, compares them with bundles for one size, tunes, and
leaves pictures at three sizes of the window, light and dark. With ``--screenshots`` it measures the
sizes alone, and puts two pictures of 1280x720 into docs/screenshots.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hands import Hands
    from PySide6.QtWidgets import QPushButton

    from nnjit_studio.ui.profile.sizes import SizesView

SIZES = ((1280, 720), (1600, 1000), (800, 490))
IMPORT_S, MEASURE_S = 300.0, 600.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--runs", default="", help="a file beside the model")
    parser.add_argument("--out", type=Path, default=Path("out/walk"))
    parser.add_argument("--screenshots", action="store_true", help="those of docs/screenshots")
    given = parser.parse_args()
    import hands

    with hands.as_a_stranger() as home:
        walk = Walk(given.out.absolute(), given.model.absolute(), given.runs, given.screenshots)
        try:
            hands.in_window(walk.go, Path(home) / "kernels.db", compares=True)
        except hands.NotReached as error:
            print(f"NOT REACHED  {error}")
            return 1
    return 0


class Walk:
    """The stations, in order."""

    def __init__(self, out: Path, model: Path, runs: str, screenshots: bool) -> None:
        self.out, self.model, self.runs, self.screenshots = out, model, runs, screenshots
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
        if self.screenshots:
            self.measure(hands, view, view.button)
            return self.shoot_for_docs(hands)
        self.shoot(hands, "asked")
        if self.runs:
            hands.click(view.files_button)
            hands.open_file(self.runs)
            hands.until("runs are known", lambda: view.runs.text(), 60)
            self.reached("recorded", f"{view.runs.text()}; {view.caption.text()}")
        for button in (view.button, view.tune_button):
            hands.click(view.alone)  # with the first alone: it takes an import of each size
            self.measure(hands, view, button)
            self.shoot(hands, "tuned" if button is view.tune_button else "measured")

    def measure(self, hands: Hands, view: SizesView, button: QPushButton) -> None:
        hands.click(button)
        hands.wait(500)
        hands.idle("the sizes are measured", MEASURE_S)
        self.reached(button.text(), view.caption.text())
        print(view.table.as_text(range(view.table.model.rowCount()), "markdown"), flush=True)

    def shoot_for_docs(self, hands: Hands) -> None:
        from screenshots import pack

        window = hands.window
        window.resize(*SIZES[0])
        hands.wait(200)
        window.docks.reset()
        window.docks.show("profile")
        for theme in ("dark", "light"):
            window.menus.choose_theme(theme)
            hands.wait(700)  # the page draws itself a little later
            raw = self.out / f"profile-sizes-{theme}.png"
            hands.picture(raw)
            pack(raw, Path("docs/screenshots") / raw.name)

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
