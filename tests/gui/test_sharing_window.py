"""Sharing in the window, and what others know: nothing is asked or sent before it is seen."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from gui_fakes import record
from PySide6.QtCore import QSettings, Qt
from PySide6.QtTest import QTest

from nnjit_studio.commons.client import consent
from nnjit_studio.commons.client.consent import CONSENT
from nnjit_studio.commons.client.maps import Elsewhere
from nnjit_studio.commons.client.sharing import Sharing
from nnjit_studio.commons.client.web import Told
from nnjit_studio.commons.report.signed import read_signed
from nnjit_studio.database import Measurement
from nnjit_studio.device.host import host_profile
from nnjit_studio.errors import CommonsError
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.ui.records import device_map, others, sharing
from nnjit_studio.ui.records.device_map import FIRST as FIRST_MAP
from nnjit_studio.ui.records.device_map import NOBODY, family_text, spots_of, summary_of
from nnjit_studio.ui.records.others import COMMONS, MINE, NEVER, TEAM, lines_of
from nnjit_studio.ui.records.sharing import FIRST, SharingDialog

SERVER = "https://commons.example.org"
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0.7 Safari/537.36"
GOOD, OTHER = str(Candidate(8, 6, 4, 8, 6, 64)), str(Candidate(4, 6, 4, 4, 6, 64))


def tuned(workbench):
    """A default and a winner of one session on this machine."""
    base = record(workbench.model.workloads[0], "default", "default", 1.0, 3)
    key = replace(
        base.key, kind="matmul", dims="384x768x768", dtype="f32", layout="row-major",
        device_id=host_profile().device_id, target="chromium", tier="relaxed-simd",
    )  # fmt: skip
    samples = tuple(1 + n / 100 for n in range(20))
    whole = replace(base, key=key, browser=AGENT, samples_ms=samples, note="secret")
    half = tuple(s / 2 for s in samples)
    return [
        replace(whole, created="2026-11-23T10:00:00+00:00"),
        replace(whole, settings=GOOD, state="won", samples_ms=half,
                created="2026-11-23T10:00:09+00:00",
                speedup=2.0, speedup_low=1.9, speedup_high=2.1),
    ]  # fmt: skip


@pytest.fixture
def sent(monkeypatch):
    """What the network would have had."""
    bodies: list[bytes] = []
    monkeypatch.setattr(consent, "send", lambda server, data: bodies.append(data) or True)
    return bodies


@pytest.fixture
def dialog(qtbot, workbench, tmp_path, sent):
    records = SimpleNamespace(all_records=lambda limit: tuned(workbench))
    settings = QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)
    made = SharingDialog(None, records, Sharing(tmp_path / "commons"), settings)
    qtbot.addWidget(made)
    made.show()
    yield made
    qtbot.waitUntil(lambda: not made._worker.job)


def show_report(qtbot, dialog):
    dialog.server.setText(SERVER + "/")
    dialog.prepare.click()
    qtbot.waitUntil(lambda: bool(dialog.document.toPlainText()))


def test_what_is_shown_is_what_is_sent(qtbot, dialog, sent):
    assert dialog.consent.text() == FIRST and not dialog.send.isEnabled()
    show_report(qtbot, dialog)
    assert sent == [] and dialog._own.sent() == [], "nothing before the button"
    shown = dialog.document.toPlainText()
    assert "secret" not in shown and GOOD in shown
    words = CONSENT.format(line="The line above", server=SERVER, how=sharing.HOW)
    assert dialog.consent.text() == " ".join(words.split("\n"))
    dialog.send.click()
    qtbot.waitUntil(lambda: dialog.told.text() == "Sent.")
    assert sent == [shown.encode()], "byte for byte"
    assert read_signed(sent[0]).report.server == SERVER
    assert shown in dialog.log.toPlainText()
    assert not dialog.send.isEnabled(), "the next report is another one"


def test_another_address_takes_the_report_away(qtbot, dialog, sent):
    show_report(qtbot, dialog)
    dialog.server.setText("https://other.example.org")
    assert not dialog.document.toPlainText() and not dialog.send.isEnabled()


def test_the_switch_stops_all_of_it(qtbot, dialog, sent):
    show_report(qtbot, dialog)
    shown = dialog._offer
    dialog.allowed.click()
    assert dialog._own.stopped and not dialog.prepare.isEnabled() and not dialog.send.isEnabled()
    with pytest.raises(CommonsError, match="switched off"):
        consent.accept(dialog._own, shown)
    dialog.allowed.click()
    assert dialog.prepare.isEnabled() and sent == []


def test_a_refusal_is_told_and_the_log_has_the_report(qtbot, dialog, monkeypatch):
    def refuse(server, data):
        raise CommonsError("The server is closed.", "Try later.")

    monkeypatch.setattr(consent, "send", refuse)
    show_report(qtbot, dialog)
    dialog.send.click()
    qtbot.waitUntil(lambda: "server is closed" in dialog.told.text())
    assert json.loads(dialog.log.toPlainText().split("\n", 1)[1])


def told(settings, **changes):
    workload = ("matmul", "384x768x768", "f32", "row-major")
    return replace(Told(workload, settings, 1.8, 0.7, 6, 7, 0.25, False), **changes)


def test_what_others_know_is_set_against_what_is_known_here(workbench):
    here = tuned(workbench)
    records = [
        replace(Measurement.of(i, r), workload="matmul:384x768x768:f32#1", median_ms=ms)
        for i, (r, ms) in enumerate(zip(here, (1.0, 0.5), strict=True))
    ]
    slower = replace(records[0], id=9, settings=OTHER, state="slower", median_ms=0.8)
    device = here[0].key.device_id
    lines = lines_of([told(GOOD), told(OTHER), told("x0=1")], [*records, slower], device)
    assert [line.here for line in lines] == ["the best here too", "0.62 of the best here", NEVER]
    assert lines[0].workload == "matmul:384x768x768:f32"
    assert [line.here for line in lines_of([told(GOOD)], records, "another")] == [NEVER]


def kind(engine, best, family="cpu-16v-l1.32k-l2.512k", sources=6):
    return Elsewhere(family, engine, "relaxed-simd", 1, "1.2", tuple(best), sources, 0.1)


def test_the_map_says_what_one_kernel_for_all_costs():
    kinds = [
        kind("chromium", [(GOOD, 2.0), (OTHER, 1.9)]),
        kind("webkit", [(OTHER, 3.0), (GOOD, 1.5)], "cpu-32v-l1.64k-l2.512k", 9),
    ]
    home = SimpleNamespace(
        family=kinds[0].family, engine="chromium", tier="relaxed-simd", threads=1
    )
    first, second = spots_of(kinds, GOOD, home)
    assert (first.kind.engine, first.mine, first.share) == ("chromium", True, 1.0)
    assert (second.mine, second.share) == (False, 0.5)
    said = summary_of(kinds)
    assert "Kinds of device: 2, winners: 2" in said
    assert f"95% of each best or more: {OTHER}" in said
    assert "none is believed on all" in summary_of([*kinds, kind("firefox", [("a", 1.0)])])
    assert summary_of([]) == NOBODY
    assert family_text("cpu-32v-l1.64k-l2.512k") == "32 vectors, 64 and 512 KiB"
    assert family_text("gpu") == "gpu"


def test_the_map_is_asked_for_by_its_button_and_goes_with_its_server(qtbot, window, monkeypatch):
    asked = []

    def answer(server, workload):
        asked.append((server, workload))
        return [kind("webkit", [(OTHER, 3.0), (GOOD, 1.5)])]

    monkeypatch.setattr(device_map, "ask_map", answer)
    monkeypatch.setattr(device_map, "home_of", lambda device: None)
    monkeypatch.setattr(others, "ask_all", lambda server, home: [told(GOOD)])
    monkeypatch.setattr(others, "home_of", lambda device: "home")
    window.docks.show("database")
    panel = window.database.others
    window.database.whose.setCurrentText(TEAM)
    panel.address.setText("http://team/")
    panel.map.button.click()
    assert asked == [] and panel.map.count.text() == FIRST_MAP, "nothing is selected"
    monkeypatch.setattr(
        window.session.workbench.page,
        "device",
        SimpleNamespace(device_id="d", gpu="x"),
        raising=False,
    )
    panel.button.click()
    qtbot.waitUntil(lambda: bool(panel.model.rows))
    panel.view.selectRow(0)
    panel.map.button.click()
    qtbot.waitUntil(lambda: bool(panel.map.model.rows))
    assert asked == [("http://team", told(GOOD).workload)]
    assert panel.map.model.rows[0].share == 0.5
    window.database.whose.setCurrentText(COMMONS)
    assert panel.map.model.rows == [] and panel.map.count.text() == FIRST_MAP


def test_live_asks_again_and_marks_what_is_new(qtbot, window, monkeypatch):
    answers = [[told(GOOD)], [told(GOOD), told(OTHER)]]
    monkeypatch.setattr(others, "ask_all", lambda server, home: answers.pop(0))
    monkeypatch.setattr(others, "home_of", lambda device: "home")
    page = window.session.workbench.page
    monkeypatch.setattr(page, "device", SimpleNamespace(device_id="d"), raising=False)
    window.docks.show("database")
    panel = window.database.others
    window.database.whose.setCurrentText(TEAM)
    panel.address.setText("http://team/")
    panel.live.click()
    qtbot.waitUntil(lambda: len(panel.model.rows) == 1)
    assert not panel.model.rows[0].new and panel._clock.isActive()
    panel.view.selectRow(0)
    panel.ask_again()
    qtbot.waitUntil(lambda: len(panel.model.rows) == 2)
    assert panel._selected() == (told(GOOD).workload, GOOD), "it stays selected"
    assert [line.new for line in panel.model.rows] == [False, True]
    assert "1 new since Live" in panel.count.text()
    window.database.whose.setCurrentText(COMMONS)
    assert not panel.live.isChecked() and not panel._clock.isActive(), (
        "another server is another question"
    )
    panel.ask_again()
    assert answers == []


def test_a_server_is_asked_by_the_button_alone(qtbot, window, monkeypatch):
    asked = []

    def answer(server, home):
        asked.append((server, home))
        return [told(GOOD)]

    monkeypatch.setattr(others, "ask_all", answer)
    monkeypatch.setattr(others, "home_of", lambda device: "home")
    window.docks.show("database")
    panel = window.database
    panel.whose.setCurrentText(TEAM)
    assert not panel.view.isVisibleTo(panel) and panel.others.isVisibleTo(panel)
    panel.others.address.setText("http://team/")
    assert asked == [] and "press Ask" in panel.others.count.text()
    monkeypatch.setattr(
        window.session.workbench.page, "device", SimpleNamespace(device_id="d"), raising=False
    )
    panel.others.button.click()
    qtbot.waitUntil(lambda: bool(panel.others.model.rows))
    assert asked == [("http://team", "home")]
    assert panel.others.count.text() == "1 kernels; 1 settings were not measured here"
    panel.whose.setCurrentText(COMMONS)
    assert panel.others.model.rows == [] and panel.others.address.text() == ""
    panel.whose.setCurrentText(MINE)
    assert panel.view.isVisibleTo(panel) and not panel.others.isVisibleTo(panel)


def test_who_chooses_whose_records_by_keys_keeps_the_keys(window):
    window.docks.show("database")
    window.database.whose.setFocus()
    for whose in (TEAM, COMMONS):
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_Down)
        assert window.focusWidget() is window.database.others.whose
        assert window.focusWidget().currentText() == whose
    for _ in range(2):
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_Up)
    assert window.focusWidget() is window.database.whose
