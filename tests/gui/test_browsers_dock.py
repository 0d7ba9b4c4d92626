"""The dock Browsers: what it shows of a comparison, and the job behind it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from gui_window import wait_job
from test_side_by_side import A, B, comparison
from waiting import PATIENCE_S

from nnjit_studio.errors import PageError, UserError
from nnjit_studio.ui.diff import feature
from nnjit_studio.workbench import installed_browsers
from nnjit_studio.workbench.installed_browsers import compare_installed
from nnjit_studio.workbench.page import EnginePage


def test_the_dock_shows_winners_and_what_the_common_set_costs(
    qtbot, window, model_file, monkeypatch
):
    monkeypatch.setattr(feature, "compare_installed", lambda bench, tell: comparison())
    wait_job(qtbot, window, "open", lambda: window.session.open(model_file))
    with qtbot.waitSignal(window.session.done):
        window.actions_by_id["browsers"].trigger()
    panel = window.browsers
    rows = [[panel.model.index(i, c).data() for c in (1, 3, 4, 7)] for i in range(2)]
    assert rows[0][:2] == ["chromium", A] and rows[0][3] == B
    assert float(rows[0][2].rstrip("\u00d7")) == pytest.approx(1.1, abs=0.02)
    assert rows[1] == ["firefox", B, "", B]
    assert "of 2 tuned workloads 1 have different winners" in panel.caption.text()
    assert "One set for all" in panel.answer.text()


def test_while_it_runs_each_browser_has_a_row(qtbot, window, model_file, monkeypatch):
    steps, came = [], {"a": Event(), "b": Event()}

    def see():
        steps.append(panel.model.rows)
        for name, doing in steps[-1] if panel.running else ():
            if doing.startswith(("tuning", "opening")):
                came[name].set()

    def compare(bench, tell):
        for phase in ("a: tuning for 30 s", "b: opening tiny.onnx"):
            tell(phase)
            assert came[phase.partition(":")[0]].wait(PATIENCE_S)
        return comparison()

    names = [SimpleNamespace(name=name) for name in "abc"]
    monkeypatch.setattr(feature, "compare_installed", compare)
    monkeypatch.setattr(installed_browsers.browsers, "find_all", lambda: names)
    wait_job(qtbot, window, "open", lambda: window.session.open(model_file))
    panel = window.browsers
    panel.model.modelReset.connect(see)
    with qtbot.waitSignal(window.session.done):
        window.actions_by_id["browsers"].trigger()
    assert [("a", "waiting"), ("b", "waiting"), ("c", "waiting")] in steps
    last = [("a", "waiting while others run"), ("b", "opening tiny.onnx"), ("c", "waiting")]
    assert last in steps
    assert panel.model.index(0, 1).data() == "chromium", "the result has its own columns"


class Page(EnginePage):
    """Of the window, which rests."""

    def __init__(self):
        self.threads, self.importing, self.sandbox = 1, None, SimpleNamespace(asked_off=True)
        self.runner = SimpleNamespace(cancel=lambda: None)
        self._cancelled, self._ended, self._busy = Event(), False, False

    @contextlib.contextmanager
    def acting_on_cancel(self, act):
        self.act = act
        yield


def test_each_browser_has_a_workbench_on_the_database_of_the_window(monkeypatch):
    found, closed, launched, ended = [], [], [], []
    database = SimpleNamespace(path=Path("k.db"))
    model = SimpleNamespace(current=SimpleNamespace(path=Path("m.onnx")), feeds={})
    bench = SimpleNamespace(page=Page(), model=model, database=database)

    def made(path, target, *, opens, **given):
        assert opens(path) is database
        page = SimpleNamespace(
            hub=target, launched_with=launched.append, close=lambda: closed.append(target),
            end=lambda: ended.append("page"),
        )  # fmt: skip
        return SimpleNamespace(
            page=page, name=target, tuning=SimpleNamespace(drop=lambda: None),
            process=SimpleNamespace(kill=lambda: ended.append("process")),
        )  # fmt: skip

    @contextlib.contextmanager
    def kept(hub, browser, no_sandbox):
        assert no_sandbox is True
        yield SimpleNamespace(flags=f"flags of {browser}")

    def compared(within, names, path, seconds, phase, feeds, told):
        phase("begins")
        found.extend(within(name, lambda other: other.name) for name in names)
        bench.page.cancel()
        with pytest.raises(UserError, match="cancelled"):
            phase("goes on")
        within("webkit", stopped)

    def stopped(other):
        """What a browser does that is waited for, once the user has pressed Stop."""
        assert not ended
        bench.page.act()
        assert ended == ["page", "process"]
        raise PageError("The page is closed.")

    monkeypatch.setattr(installed_browsers, "Workbench", made)
    monkeypatch.setattr(installed_browsers, "keep_page", kept)
    monkeypatch.setattr(installed_browsers, "compare_browsers", compared)
    monkeypatch.setattr(installed_browsers.browsers, "find", lambda name: name)
    both = (SimpleNamespace(name="chromium"), SimpleNamespace(name="firefox"))
    monkeypatch.setattr(installed_browsers.browsers, "find_all", lambda: both)
    phases = []
    with pytest.raises(UserError, match="The comparison was cancelled"):
        compare_installed(bench, phases.append)
    assert found == ["chromium", "firefox"]
    assert closed == ["chromium", "firefox", "webkit"] and phases == ["begins"]
    assert launched[:2] == ["flags of chromium", "flags of firefox"]
