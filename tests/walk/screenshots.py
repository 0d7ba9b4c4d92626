"""Pictures of every view, light and dark, from real runs: ``make screenshots``.

Each scale is a process of its own, for Qt reads ``QT_SCALE_FACTOR`` once. What a picture shows was
computed in the window that it shows: the sample model is opened, profiled, tuned and compared, the
device measured, a decoder makes text.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hands import Hands
    from PySide6.QtWidgets import QWidget

OF_TUNING = ("rounds", "latency", "space", "profile", "kernel-speed", "database", "inspecting")
ROOT = Path(__file__).parents[2]
COLOURS = 256
TUNE_S = 20.0
DOCK = (1280, 620)
SIZES = {
    "graph": (1180, 760), "space": (1280, 560), "rounds": (900, 460), "latency": (900, 300),
    "kernel": (1280, 720), "text": (1280, 460), "log": (1280, 360),
}  # fmt: skip
AT_2X = (
    "welcome",
    "tuning",
    "graph",
    "kernel-side-by-side",
    "profile-findings",
    "database",
)
"""What is kept at 2x: the views that a page shows large."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/screenshots"))
    parser.add_argument("--decoder", type=Path, required=True, help="Of the dock Text")
    parser.add_argument("--prefill", type=Path, required=True, help="What reads its prompt")
    parser.add_argument("--scale", type=int, choices=(1, 2), help="One scale, in this process")
    parser.add_argument("--views", nargs="*", help="Only views whose names begin so")
    arguments = parser.parse_args()
    if arguments.scale is None:
        for scale in (1, 2):
            subprocess.run([sys.executable, *sys.argv, "--scale", str(scale)], check=True)
        return
    import hands

    os.environ["QT_SCALE_FACTOR"] = str(arguments.scale)
    with hands.as_a_stranger() as home, tempfile.TemporaryDirectory() as raw:
        album = Album(Path(raw), arguments)
        try:
            hands.in_window(album.go, Path(home) / "kernels.db")
        finally:  # what was taken before a failure is worth a look
            kept = sum(pack(p, arguments.out / p.name) for p in sorted(Path(raw).glob("*.png")))
    print(f"{kept / 1024:.0f} KiB of pictures at {arguments.scale}x in {arguments.out}")


def pack(picture: Path, out: Path) -> int:
    """Write a picture with a palette of its own; its bytes. Text stays sharp in 256 colours."""
    from PIL import Image

    out.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(picture) as image:
        # By coverage: the median cut would merge colours of which there are few pixels.
        few = image.convert("RGB").quantize(
            COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
        few.save(out, optimize=True)
    return out.stat().st_size


class Album:
    """The views in the order in which a session fills them."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.folder, self.scale = folder, arguments.scale
        self.decoder, self.prefill = arguments.decoder.absolute(), arguments.prefill.absolute()
        self.views = tuple(arguments.views or ("",))

    def go(self, hands: Hands) -> None:
        self.hands, self.window = hands, hands.window
        for part in (
            self.welcome, self.open, self.tune, self.profile_again, self.look_around,
            self.run_others,
        ):  # fmt: skip
            begun = time.monotonic()
            part()
            print(f"{self.scale}x {part.__name__}: {time.monotonic() - begun:.0f} s", flush=True)

    def wanted(self, name: str) -> bool:
        return name.startswith(self.views) and (self.scale == 1 or name.startswith(AT_2X))

    def shoot(self, name: str, widget: QWidget | None = None) -> None:
        """The widget, or the whole window, in both themes."""
        if not self.wanted(name):
            return
        for theme in ("dark", "light"):
            self.window.menus.choose_theme(theme)
            self.hands.wait(400 if widget else 4000)  # the page draws itself a little later
            ending = f"-{theme}" + ("@2x" if self.scale == 2 else "")
            self.hands.picture(self.folder / f"{name}{ending}.png", widget)

    def dock(self, name: str, picture: str = "") -> None:
        """A dock by itself, as large as it is used."""
        if not self.wanted(picture or name):
            return
        dock = self.window.docks[name]
        dock.show()
        dock.setFloating(True)
        dock.resize(*SIZES.get(name, DOCK))
        self.hands.wait(300)
        if dock.focusWidget() is not None:
            dock.focusWidget().clearFocus()
        self.shoot(picture or name, dock)
        dock.setFloating(False)
        dock.raise_()

    def tabs(self, name: str, tabs: QWidget, pictures: tuple[str, ...]) -> None:
        for place, picture in enumerate(pictures):
            tabs.setCurrentIndex(place)
            self.dock(name, f"{name}-{picture}")
        tabs.setCurrentIndex(0)

    def do(self, action: str, seconds: float = 240) -> None:
        """Trigger an action and wait until nothing runs."""
        self.window.actions_by_id[action].trigger()
        self.hands.wait(100)
        self.hands.idle(action, seconds)
        self.hands.wait(400)

    # The session

    def welcome(self) -> None:
        page = self.window.welcome.page
        self.hands.until("the machine is looked at", lambda: "Engine" in page.as_text())
        if self.wanted("welcome"):
            self.do("examine")
            self.shoot("welcome")

    def open(self) -> None:
        self.hands.click(self.window.welcome.page.sample_button)
        self.hands.until("the profile is there", lambda: self.window.panel("profile").result, 240)
        self.hands.idle("the profile", 120)
        if self.wanted("device"):
            self.do("device", 400)
            self.dock("device")
        if self.wanted("profile-cold-and-warm"):
            self.window.panel("profile").ledger.button.click()
            self.hands.idle("the cold start", 240)
            self.window.panel("profile").tabs.setCurrentIndex(2)
            self.dock("profile", "profile-cold-and-warm")
            self.window.panel("profile").tabs.setCurrentIndex(0)

    def tune(self) -> None:
        if not any(map(self.wanted, ("tuning", "tuned", *OF_TUNING))):
            return
        window = self.window
        window.actions_by_id["layout_tune"].trigger()
        # Without a limit until there is something to see: a busy machine spends 20 s on its start.
        window.start_tuning()
        self.hands.until(
            "rounds are plotted",
            lambda: sum(len(w.rounds) for w in window.session.state.workloads.values()) > 8,
            400,
        )
        self.shoot("tuning")
        window.session.set_seconds_left(TUNE_S)
        self.hands.idle("tuning", 240)
        self.hands.wait(500)
        self.shoot("tuned")
        for name in ("rounds", "latency", "space"):
            self.dock(name)
        window.actions_by_id["reset_layout"].trigger()

    def profile_again(self) -> None:
        if self.wanted("profile"):
            self.do("profile")

    def look_around(self) -> None:
        window = self.window
        self.tabs(
            "profile",
            window.panel("profile").tabs,
            ("findings", "timeline", "cold-and-warm-after", "memory", "roofline", "compare"),
        )
        heaviest = max(window.panel("profile").result.steps, key=lambda step: step.ms).node
        window.panel("graph").go_to(heaviest)
        self.dock("graph")
        window.actions_by_id["kernel"].trigger()
        self.hands.until("the kernel is shown", lambda: window.panel("kernel").kernel is not None)
        self.hands.wait(500)
        self.mark_a_line()
        tabs = window.panel("kernel").tabs
        self.tabs("kernel", tabs, ("side-by-side", "passes", "numbers", "speed"))
        self.do("refresh")
        self.dock("database")
        if self.wanted("diff") or self.wanted("inspecting"):
            self.do("diff")
            self.dock("diff")
        window.actions_by_id["layout_inspect"].trigger()
        self.shoot("inspecting")
        window.actions_by_id["reset_layout"].trigger()
        self.dialogs()

    def mark_a_line(self) -> None:
        """Put the cursor on the first multiply-add of the loops, so that lines are marked."""
        from PySide6.QtWidgets import QPlainTextEdit

        for view in self.window.panel("kernel").sides.findChildren(QPlainTextEdit):
            cursor = view.document().find("a * B0 + acc")
            if not cursor.isNull():
                cursor.clearSelection()
                view.setTextCursor(cursor)
                self.hands.wait(200)
                return

    def dialogs(self) -> None:
        from PySide6.QtWidgets import QDialog

        from nnjit_studio.ui.commands.dialogs import show
        from nnjit_studio.ui.profile.perfetto import TraceSaved
        from nnjit_studio.ui.startup.crash import CrashDialog, report_text

        def opened(name: str) -> None:
            self.hands.wait(200)
            dialog = next(d for d in self.window.findChildren(QDialog) if d.isVisible())
            self.shoot(name, dialog)
            dialog.close()
            self.hands.wait(50)

        for action in ("palette", "settings", "shortcuts", "about"):
            self.window.actions_by_id[action].trigger()
            if action == "palette":
                next(d for d in self.window.findChildren(QDialog) if d.isVisible()).field.setText(
                    "exp rec"
                )
            opened(action)
        trace = self.folder / "minilm-trace.json"
        self.window.panel("profile").save_trace(trace)
        show(TraceSaved(self.window, Path.home() / "minilm-trace.json"))
        opened("perfetto")
        try:
            raise RuntimeError("This is what make screenshots raised, for the picture.")
        except RuntimeError as error:
            words = report_text(error, "MainThread").replace(str(ROOT), "~/nnjit-studio")
        show(CrashDialog(self.window, words, "the user's folder of logs"))
        opened("crash")

    def run_others(self) -> None:
        """What needs another engine or another model: software WebGPU, a decoder."""
        window = self.window
        if self.wanted("faster"):
            from nnjit_studio.ui.window.backend_choice import CHOICES

            names = [name for name, *_ in CHOICES]
            window.backend.choose(names.index("WebGPU, software"))
            self.hands.wait(100)
            self.hands.idle("the software adapter", 300)
            self.do("faster", 600)
            self.hands.until("the comparison is shown", lambda: window.panel("faster").result, 10)
            self.dock("faster")
        if self.wanted("text"):
            window.backend.choose(0)
            self.hands.wait(100)
            self.hands.idle("Wasm", 200)
            form = window.panel("text").form
            form.decoder.setText(str(self.decoder))
            form.prefill.setText(str(self.prefill))
            form.prompt.setPlainText("464 3280 318")
            form.tokens.setValue(48)
            window.docks["text"].show()
            window.docks["text"].raise_()
            window.panel("text").button.click()
            self.hands.wait(200)
            self.hands.idle("the text", 600)
            form.decoder.setText(self.decoder.name)  # where it lies is nobody's business
            form.prefill.setText(self.prefill.name)
            self.dock("text")
        self.dock("log")


if __name__ == "__main__":
    main()
