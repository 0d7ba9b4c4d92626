"""Dropped files: what they are, and what the window does with them."""

import io
import json
import zipfile

import pytest
from gui_fakes import profile_of, record
from gui_window import wait_job
from PySide6.QtWidgets import QMessageBox

from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import UserError
from nnjit_studio.ui.state.window_words import in_window
from nnjit_studio.ui.window import dropped_files as drops


def zip_of(name: bytes, needs: int = 20) -> bytes:
    """A zip of one empty file, by its name as UTF-8 and the version that its reader needs."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("\u00e9" * len(name), b"")
    content = file.getvalue().replace("\u00e9".encode() * len(name), name.ljust(2 * len(name)))
    entry = content.index(b"PK\1\2")
    return content[: entry + 6] + bytes([needs]) + content[entry + 7 :]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("m.ONNX", b"", drops.MODEL),
        ("t.json", b'{"traceEvents": [{}, {}]}', drops.TRACE),
        ("r.json", b'{"format": "nnjit-records"}', drops.DATABASE),
        ("s.json", b' {"format": "nnjit-session"}', drops.SAVED_SESSION),
        ("p.json", b'{"model": "m", "steps": []}', drops.PROFILE_FILE),
        ("k.sqlite", b"SQLite format 3\0 and more", drops.DATABASE),
    ],
)
def test_files_are_recognised_by_what_they_hold(tmp_path, name, content, kind):
    path = tmp_path / name
    path.write_bytes(content)
    assert drops.recognise(path).kind == kind


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\x89PNG", "Studio cannot open"),
        (b"", "is empty"),
        (b"{ no", "not valid JSON"),
        (b"[1]", "JSON of a kind"),
        (b"[" * 100_000, "not valid JSON"),
        (b"PK\x03\x04 cut off", "cut.bin"),
        (zip_of(b"\xff\xfe"), "zip that cannot be read"),
        (zip_of(b"a", needs=99), "zip that cannot be read"),
    ],
)
def test_other_files_are_refused_in_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "cut.bin"
    path.write_bytes(content)
    with pytest.raises(UserError, match=sentence) as caught:
        drops.recognise(path)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "content", "what", "step"),
    [
        ("m.ort", b"\x1c\0\0\0ORTM and more", "ONNX Runtime's own", "made from"),
        ("m.tflite", b"\x1c\0\0\0TFL3 and more", "TensorFlow Lite", "tflite"),
        ("m.h5", b"\x89HDF\r\n\x1a\n", "Keras", "tf2onnx"),
        ("m.safetensors", b'\x40\0\0\0\0\0\0\0{"w":{"dtype":"F32"}}', "weights", "export"),
        ("m.pt", "archive/data.pkl", "PyTorch", "torch.onnx.export"),
        ("m.pth", b"\x80\x02\x8a\nl\xfc", "older files", "torch.onnx.export"),
        ("m.keras", "model.weights.h5", "Keras", "tf2onnx"),
        ("photos.zip", "a.jpg", "no bundle", "bundle"),
        ("models", None, "folder", "one of its files"),
        ("saved_model.pb", b"\x08\x01", "SavedModel", "tf2onnx"),
        ("models.onnx", None, "folder", "one of its files"),
        ("really.wasm", b"\x08\x09\x12\x07pytorch", "is not a Wasm module", "ends in .onnx"),
    ],
)
def test_models_in_other_formats_are_told_the_way_to_onnx(tmp_path, name, content, what, step):
    """A checkpoint of PyTorch was a bundle that "is not whole"."""
    path = tmp_path / name
    if content is None:
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(content, "x")
    with pytest.raises(UserError, match=what) as caught:
        drops.recognise(path)
    assert name in caught.value.error and step in in_window(caught.value.hint)


def test_a_folder_of_tensorflow_is_told_the_way_to_onnx(qtbot, window, tmp_path):
    """One of its files was asked for, and the window opens none of them."""
    folder = tmp_path / "mobile.onnx"
    folder.mkdir()
    assert window.dropped.drop([folder])
    qtbot.waitUntil(lambda: "is a folder" in window.message.text.text())
    (folder / drops.SAVED_MODEL).touch()
    assert window.dropped.drop([folder])
    qtbot.waitUntil(lambda: "tf2onnx" in window.message.text.text())


def test_a_damaged_bundle_and_a_folder_are_answered(qtbot, window, tmp_path):
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hi")
    for dropped in (path, tmp_path):
        window.message.hide()
        assert window.dropped.drop([dropped])
        qtbot.waitUntil(window.message.isVisible)
        assert dropped.name in window.message.text.text()


def test_a_dropped_database_asks_before_it_imports(qtbot, window, workbench, tmp_path):
    with KernelDatabase.open(tmp_path / "other.db") as other:
        other.add_records([record(workbench.model.workloads[0], "x", "failed", 0.0, 1)])
    workbench.database.look_into = KernelDatabase.look_into
    assert window.dropped.drop([tmp_path / "other.db"])
    qtbot.waitUntil(lambda: window.findChild(QMessageBox) is not None)
    asked = window.findChild(QMessageBox).text()
    assert "1 record of 1 workload from other.db" in asked
    assert "on 1 device, in: " in asked and "Mozilla" not in asked


def test_a_dropped_profile_is_compared_with_the_model_that_is_open(
    qtbot, window, workbench, model_file, tmp_path
):
    path = tmp_path / "p.json"
    path.write_text(json.dumps(profile_of(workbench.model).to_json()))
    window.dropped.drop([path])
    qtbot.waitUntil(lambda: "open its model first" in window.message.text.text())
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    window.dropped.drop([path])
    qtbot.waitUntil(lambda: window.profile.compare.before is not None)
    assert "Comparing with p.json" in window.message.text.text()
    assert window.profile.tabs.currentWidget() is window.profile.compare


def test_a_dropped_trace_says_where_it_opens(qtbot, window, tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": []}')
    window.dropped.drop([path])
    qtbot.waitUntil(lambda: "Perfetto" in window.message.text.text())


def test_a_drop_without_a_file_is_not_called_several(window):
    """A program that ended before its file was asked for gives none."""
    assert not window.dropped.drop_urls([])
    assert window.message.text.text() == "The other program gave no file: drop it again."
