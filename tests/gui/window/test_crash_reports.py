"""Reports of unexpected errors."""

import sys
import threading

from PySide6.QtGui import QGuiApplication

from nnjit_studio.ui.startup import crash


def test_what_nobody_caught_becomes_a_report_and_a_dialog(qtbot, window, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "excepthook", lambda *args: seen.append(args[1]))
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(args.exc_value))
    before = sys.excepthook, threading.excepthook

    def breaks():
        raise RuntimeError("not expected")

    with crash.reporting(window, tmp_path / "crashes") as reporter:
        thread = threading.Thread(target=breaks, name="some-thread")
        thread.start()
        thread.join()
        qtbot.waitUntil(lambda: reporter.dialog is not None)
        try:
            breaks()
        except RuntimeError as error:
            sys.excepthook(RuntimeError, error, error.__traceback__)
        assert len(seen) == 2
        reporter.dialog.copy_button.click()
        words = QGuiApplication.clipboard().text()
        assert "Thread some-thread" in words and "RuntimeError: not expected" in words
        reports = sorted((tmp_path / "crashes").iterdir())
        assert len(reports) == 2 and reports[0].read_text("utf-8") == words
    assert (sys.excepthook, threading.excepthook) == before


def test_reports_are_few_and_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    for _ in range(crash.KEPT + 3):
        crash.write_report(tmp_path, "words")
    assert len(list(tmp_path.iterdir())) == crash.KEPT
    (tmp_path / "file").write_text("")
    assert crash.write_report(tmp_path / "file", "words") is None
