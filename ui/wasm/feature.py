"""The dock Wasm file: opened by an action, or by a .wasm that is dropped on the window."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.feature import STAGE, WASM_FILE, Action, Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.widgets.panel import Panel


def open_wasm(host: Host, path: Path) -> bool:
    """Show a Wasm file in its dock; False while another job of the dock runs."""
    from nnjit_studio.ui.wasm.dock import WasmPanel

    panel = WASM.show(host)
    assert isinstance(panel, WasmPanel)
    return panel.open(path)


def _make(host: Host) -> Panel:
    from nnjit_studio.ui.wasm.dock import WasmPanel

    return WasmPanel(host)


def _ask(host: Host) -> None:
    """Have the user choose a file; what is shown stays until then."""
    dialogs.ask_file(host.window, dialogs.WASM_FILES, host.saver.folder, partial(open_wasm, host))


WASM: Feature[Panel] = Feature(
    "wasm", "Wasm file", _make,
    actions=(
        Action(
            "wasm", "&File", "Open &Wasm file…", "Ctrl+Shift+W",
            tip="Functions of any .wasm file: size, compile cost, vectors that spill",
            command="nnjit inspect FILE.wasm", do=_ask,
        ),
    ),
    area=STAGE, layouts=(WASM_FILE,),
)  # fmt: skip
