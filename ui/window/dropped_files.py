"""Files that are dropped on the window: recognised by their content, then opened."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, QUrl
from PySide6.QtWidgets import QMessageBox

from nnjit_studio.bundle import read_bundle
from nnjit_studio.bundle.manifest import MANIFEST_FILE, Manifest
from nnjit_studio.database.transfer import FORMAT as RECORDS
from nnjit_studio.errors import UserError
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.graph.feature import GRAPH
from nnjit_studio.ui.profile.feature import PROFILE
from nnjit_studio.ui.records.feature import look_into
from nnjit_studio.ui.state.jobs import reader
from nnjit_studio.ui.wasm.feature import open_wasm
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.window.session_file import FORMAT as SESSION

MODEL, BUNDLE, DATABASE, PROFILE_FILE, TRACE, SAVED_SESSION, WASM_FILE = (
    "model", "bundle", "database", "profile", "trace", "session", "wasm",
)  # fmt: skip
LIMIT_BYTES = 256 << 20
"""JSON files beyond this are not read."""
HINT = (
    "Drop a model (.onnx), a Wasm file (.wasm), a bundle (.zip), kernel records (.db, .json), a "
    "saved profile, or a session."
)

OTHERS = (
    (4, b"ORTM", "is a model in ONNX Runtime's own format",
     "Drop the .onnx that it was made from."),
    (4, b"TFL3", "is a model of TensorFlow Lite",
     "Convert it with tf2onnx (option tflite), then drop the .onnx."),
    (0, b"\x89HDF\r\n", "is a model or weights of Keras",
     "Convert the model with tf2onnx, then drop the .onnx."),
    (0, b"\x80\x02", "is pickled by Python, as PyTorch's older files are",
     "Export the model with torch.onnx.export, then drop the .onnx."),
    (6, b"\0\0{", "holds weights without a model",
     "Export the model with torch.onnx.export or optimum, then drop the .onnx."),
)  # fmt: skip
"""Where other formats have which bytes, what they are, and the way from there to an ONNX model."""
SAVED_MODEL = "saved_model.pb"
OF_SAVED_MODEL = "Convert its folder with tf2onnx (option saved-model), then drop the .onnx."
NO_MODULE = "it does not begin with \\0asm"
OF_WASM = "A model opens where its name ends in .onnx; a Wasm file may have to be downloaded again."
TORCH = "Export the model with torch.onnx.export, then drop the .onnx."


@dataclass(frozen=True)
class Dropped:
    """A file that was recognised; ``words`` describe its content."""

    kind: str
    path: Path
    words: str = ""


def recognise(path: Path) -> Dropped:
    """The kind of a file, by its ending and then by its content. A bundle is verified.

    All of the file is read, so call it in a thread.

    Raises
    ------
    UserError
        When the Studio opens no such files, or it is damaged.
    """
    if path.name == SAVED_MODEL or (path / SAVED_MODEL).is_file():
        raise UserError(f"{path.name} is a SavedModel of TensorFlow.", OF_SAVED_MODEL)
    if path.is_dir():
        raise UserError(f"{path.name} is a folder.", "Drop one of its files.")
    if path.suffix.lower() == ".onnx":
        return Dropped(MODEL, path)
    try:
        with path.open("rb") as file:
            head = file.read(32)
        if not head:
            raise UserError(f"{path.name} is empty.", "Write or download it again.")
        if head.startswith(b"SQLite format 3\0"):
            return Dropped(DATABASE, path)
        if head.startswith(b"\0asm"):
            return Dropped(WASM_FILE, path)
        for at, mark, what, hint in OTHERS:
            if head[at:].startswith(mark):
                raise UserError(f"{path.name} {what}.", hint)
        if head.startswith(b"PK"):
            _no_checkpoint(path)
            return Dropped(BUNDLE, path, bundle_words(path))
        if head.lstrip()[:1] in (b"{", b"[") and path.stat().st_size <= LIMIT_BYTES:
            return _json(path)
    except OSError as e:
        raise UserError(f"{path.name} cannot be read: {e.strerror or e}.", HINT) from e
    if path.suffix.lower() == ".wasm":
        raise UserError(f"{path.name} is not a Wasm module: {NO_MODULE}.", OF_WASM)
    raise UserError(f"The Studio cannot open {path.name}.", HINT)


def _no_checkpoint(path: Path) -> None:
    """Refuse a zip of PyTorch, of Keras, or of anything else that is no bundle at all."""
    names: list[str] = []
    try:
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (ValueError, NotImplementedError) as e:  # names or a version that no bundle has
        raise UserError(f"{path.name} is a zip that cannot be read ({e}).", HINT) from e
    if any(name.endswith("/data.pkl") for name in names):
        raise UserError(f"{path.name} holds weights or a model of PyTorch.", TORCH)
    if "model.weights.h5" in names:
        raise UserError(f"{path.name} {OTHERS[2][2]}.", OTHERS[2][3])
    if names and MANIFEST_FILE not in names:
        raise UserError(f"{path.name} is a zip, but no bundle.", HINT)


def bundle_words(path: Path) -> str:
    """The manifest of a bundle, line by line; verifies the bundle."""
    bundle = read_bundle(path)
    manifest = bundle.manifest
    return "\n".join(f"{name}: {value}" for name, value in _facts(manifest, path).items())


def _facts(manifest: Manifest, path: Path) -> Mapping[str, str]:
    ports = {
        name: ", ".join(f"{s.name} ({text.shape(s.shape)} {s.dtype})" for s in specs)
        for name, specs in (("Inputs", manifest.inputs), ("Outputs", manifest.outputs))
    }
    tuned = ", ".join(f"{k} {v}" for k, v in manifest.tuned_on.items() if v) or "no device"
    return {
        "Model": manifest.name,
        "Written by": f"{manifest.generator}, {manifest.created}",
        **ports,
        "Wasm kernels": str(len(manifest.kernels)),
        "WebGPU kernels": str(len(manifest.gpu_kernels)),
        "Tuned on": tuned,
        "Files": f"{len(manifest.files)}, every sha256 correct",
        "Size": text.nbytes(path.stat().st_size),
    }


def _json(path: Path) -> Dropped:
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as e:
        raise UserError(f"{path.name} is not valid JSON ({e}).", HINT) from e
    fields = data if isinstance(data, dict) else {}
    if isinstance(fields.get("traceEvents"), list):
        events = fields["traceEvents"]
        return Dropped(TRACE, path, f"a trace of {len(events):,} events")
    if fields.get("format") == RECORDS:
        return Dropped(DATABASE, path)
    if fields.get("format") == SESSION:
        return Dropped(SAVED_SESSION, path)
    if isinstance(fields.get("steps"), list):
        return Dropped(PROFILE_FILE, path)
    raise UserError(f"{path.name} is JSON of a kind that the Studio cannot open.", HINT)


class DroppedFiles(QObject):
    """Takes the file that was dropped; for anything else there is a sentence."""

    def __init__(
        self, host: Host, open_model: Callable[[Path], bool], open_session: Callable[[Path], bool]
    ) -> None:
        super().__init__(host)
        self._host, self._open_model, self._open_session = host, open_model, open_session
        self._reader = reader(self, self._take, host.tell)

    def drop_urls(self, urls: Sequence[QUrl]) -> bool:
        """Take what was dropped by the mouse; False when it is no single file."""
        if not urls:  # it ended, or took too long to answer
            self._host.message.say("The other program gave no file: drop it again.", "bad")
            return False
        if all(url.isLocalFile() for url in urls):
            return self.drop([Path(url.toLocalFile()) for url in urls])
        self._host.message.say(
            "That is a link, not a file: save the model first, then drop it.", "bad"
        )
        return False

    def drop(self, paths: Sequence[Path]) -> bool:
        """Take one file; False for several, and while another one is being read."""
        if len(paths) != 1:
            self._host.message.say(f"{len(paths)} files were dropped: drop one at a time.", "bad")
            return False
        path = paths[0]
        if path.suffix.lower() == ".onnx" and not path.is_dir():
            return self._open_model(path)
        return self._reader.start("drop", lambda _: recognise(path))

    def _take(self, found: Dropped) -> None:
        host, name = self._host, found.path.name
        if found.kind == DATABASE:
            look_into(host, found.path)
        elif found.kind == WASM_FILE:
            open_wasm(host, found.path)
        elif found.kind == BUNDLE:
            icon, title = QMessageBox.Icon.Information, f"{name} is intact"
            dialogs.show(QMessageBox(icon, title, found.words, parent=host.window))
        elif found.kind == SAVED_SESSION:
            self._open_session(found.path)
        elif found.kind == PROFILE_FILE:
            self._compare(found.path)
        else:
            host.message.say(
                f"{name} is {found.words}: open it in Perfetto. To compare two runs, drop a saved "
                "profile."
            )

    def _compare(self, path: Path) -> None:
        host = self._host
        if host.session.state.model is None:
            host.message.say(f"{path.name} is a saved profile: open its model first, then drop.")
            return
        profile = PROFILE.show(host)
        profile.tabs.setCurrentWidget(profile.compare)
        profile.compare.compare_with_file(path)
        GRAPH.panel(host).compare_with_file(path)
        host.message.say(f"Comparing with {path.name}: in the graph, and in Profile, Compare.")
