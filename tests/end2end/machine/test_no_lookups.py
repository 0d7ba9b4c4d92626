"""Nothing leaves the machine: neither libraries nor started browsers look up a name."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lonely
import pytest
from every_verb import JOBS

from nnjit_studio.cli.main import VERBS

HERE = Path(__file__).parent
LONG_S = 240.0
"""Of some 20 s, on a machine under load."""


@pytest.fixture(autouse=True, scope="module")
def namespaces() -> None:
    reason = lonely.why_not()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, for Chromium puts a socket below it, whose path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="nnjit-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def test_the_name_server_notes_what_is_looked_up(folder: Path) -> None:
    code = "import socket; socket.getaddrinfo('wanted.example', 443)"
    done, names = lonely.run([sys.executable, "-c", code], folder, LONG_S)
    assert "Name or service not known" in done.stderr
    assert set(names) == {"wanted.example"}


def test_the_embedded_view_asks_for_no_name(folder: Path) -> None:
    """Its flags hold where no page and no interceptor stands in the way."""
    code = """
        from nnjit_studio.ui.page.process import check_sandbox
        check_sandbox(True)
        from PySide6.QtCore import QUrl
        from PySide6.QtWebEngineWidgets import QWebEngineView
        from PySide6.QtWidgets import QApplication
        app = QApplication([])
        view = QWebEngineView()
        view.loadFinished.connect(lambda ok: (print("loaded", ok), app.quit()))
        view.load(QUrl("http://wanted.example/"))
        app.exec()
    """
    script = "\n".join(line.strip() for line in code.splitlines())
    done, names = lonely.run([sys.executable, "-c", script], folder, LONG_S)
    assert done.stdout == "loaded False\n", done.stderr[-2000:]
    assert names == []


def test_no_name_is_looked_up_and_no_device_id_is_kept(folder: Path) -> None:
    scenario = [sys.executable, str(HERE / "no_lookups_scenario.py")]
    done, names = lonely.run(scenario, folder, LONG_S)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["embedded"]["ok"]
    for browser in report["browsers"]:  # each reached the hub and answered
        assert browser["adapter"] or "This browser" in browser["reason"], browser
    assert names == []
    cache = folder / "xdg_cache_home"
    kept = [path for path in cache.rglob("*") if "onnxruntime" in path.name.lower()]
    assert kept == [] and not (cache / "Microsoft").exists()


def test_the_campaign_has_every_verb() -> None:
    """`make no-lookups` runs it; all of them here would take six minutes."""
    assert set(JOBS) == set(VERBS)
