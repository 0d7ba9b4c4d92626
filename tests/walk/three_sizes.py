"""The window at three sizes, light and dark: ``make screenshots`` puts them into docs/screenshots.

A stranger's session on the sample model: welcome page, verdict with the profile, graph, the list
of advice as far as it is measured in time, and the editor of inputs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hands import Hands

    from nnjit_studio.ui.window.main_window import StudioWindow

SIZES = ((1280, 720), (1600, 900), (1920, 1080))
VERDICT_S, ADVICE_S = 600.0, 900.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/screenshots"))
    parser.add_argument("--model", type=Path, help="a file to drop in place of the sample")
    parser.add_argument("--advice", action="store_true", help="also the list of advice, minutes")
    arguments = parser.parse_args()
    import hands
    from screenshots import pack

    with hands.as_a_stranger() as home, tempfile.TemporaryDirectory() as raw:
        album = Sizes(Path(raw), arguments.model, arguments.advice)
        try:
            hands.in_window(album.go, Path(home) / "kernels.db", compares=True)
        finally:  # what was taken before a failure is worth a look
            kept = sum(pack(p, arguments.out / p.name) for p in sorted(Path(raw).glob("*.png")))
            print(f"{kept / 1024:.0f} KiB of pictures in {arguments.out}")
    return 0


class Sizes:
    """Each view is filled once and then drawn at every size in both themes."""

    def __init__(self, folder: Path, model: Path | None, advice: bool) -> None:
        self.folder, self.model, self.advice = folder, model, advice

    def go(self, hands: Hands) -> None:
        window = hands.window
        window.showNormal()
        page = window.welcome.page
        hands.until("the machine is examined", lambda: "Engine" in page.as_text())
        self.shoot(hands, "welcome")
        if self.model is None:
            hands.click(page.sample_button)
        else:
            hands.drop(self.model.absolute())
            hands.until("sizes are asked", lambda: window.opener.dialog is not None, 60)
            hands.click(window.opener.dialog.open_button)
        hands.until("it is open", lambda: window.session.state.model is not None, 300)
        findings = window.panel("profile").findings
        hands.until("it is profiled", lambda: findings.buttons, 120)
        hands.until("it is compared", lambda: self.compared(window), VERDICT_S)
        self.shoot(hands, "verdict")
        window.docks.show("graph")
        self.shoot(hands, "graph")
        if self.advice:
            hands.click(hands.button("Make it faster"))
            advice = window.panel("advice")
            hands.until("the list is begun", lambda: advice.result is not None, 120)
            hands.idle("everything is measured", ADVICE_S)
            self.shoot(hands, "advice")

    def compared(self, window: StudioWindow) -> bool:
        """Whether the verdict stands and nothing runs."""
        told = bool(window.verdict.panel.headline)
        return told and window.verdict.resting and not window.session.busy

    def shoot(self, hands: Hands, name: str) -> None:
        window = hands.window
        for width, height in SIZES:
            window.resize(width, height)
            hands.wait(200)
            window.docks.reset()
            for theme in ("dark", "light"):
                window.menus.choose_theme(theme)
                hands.wait(700)  # the page draws itself a little later
                hands.picture(self.folder / f"size-{width}x{height}-{name}-{theme}.png")


if __name__ == "__main__":
    sys.exit(main())
