"""The dock Text: fields, tokens as they come, rates, stop, and the check."""

from __future__ import annotations

from pathlib import Path

import pytest
from gui_fakes import FakeTexts
from PySide6.QtCore import Qt

from nnjit_studio.errors import ModelError
from nnjit_studio.generation.session import TextBegun, TokenMade
from nnjit_studio.model import Token
from nnjit_studio.ui.state.text_state import TextState


@pytest.fixture
def texts(window, workbench):
    made = FakeTexts(workbench)
    window.session.texts = made
    return made


@pytest.fixture
def decoder(tmp_path) -> Path:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(b"not read by the fake")
    return path


def fill(window, decoder: Path, prompt: str = "3, 1 4") -> None:
    window.text.form.decoder.setText(str(decoder))
    window.text.form.prompt.setPlainText(prompt)


def make(qtbot, window) -> None:
    with qtbot.waitSignal(window.session.done):
        window.text.button.click()


def test_tokens_appear_with_their_rates(qtbot, window, texts, decoder):
    fill(window, decoder)
    window.text.form.tokens.setValue(400)
    make(qtbot, window)
    panel = window.text
    (request,) = texts.requests
    assert (request.path, request.ids) == (decoder, (3, 1, 4))
    assert (request.sampling.max_tokens, request.sampling.top_k) == (400, 1)
    assert panel.out.toPlainText().split() == [str(5 + i) for i in range(400)]
    # 19 tokens of 4 ms behind the first, then 380 of 8 ms
    whole = 399 / (19 * 0.004 + 380 * 0.008)
    assert f"125.0 tokens/s in the last 2 s, {whole:.1f} of the whole" in panel.rates.text()
    assert "400 tokens (all tokens made)" in panel.caption.text()
    assert "prompt of 3 read up to 128 at once in 40.0 ms" in panel.caption.text()
    x, y = panel.plot.line.getOriginalDataset()
    assert len(x) == 399 and y[0] == 4.0 and y[-1] == 8.0
    header, rows = panel.plot.table()
    assert header[0] == "index" and rows[0] == (0, 5, 40.0, 0.5)


def test_the_button_stops_a_text_and_what_came_stays(qtbot, window, texts, decoder):
    texts.hold = True
    fill(window, decoder)
    window.text.button.click()
    qtbot.waitUntil(lambda: len(window.session.state.text.tokens) > 3)
    assert window.text.button.text() == "Stop" and window.text.out.toPlainText()
    assert not window.text.check_button.isEnabled()
    with qtbot.waitSignal(window.session.done):
        window.text.button.click()
    assert "(stopped)" in window.text.caption.text()
    made = window.text.out.toPlainText().split()
    assert len(made) == len(window.session.state.text.tokens)
    assert window.text.button.text() == "Start"


def test_a_second_text_takes_the_place_of_the_first(qtbot, window, texts, decoder):
    fill(window, decoder)
    window.text.form.tokens.setValue(3)
    make(qtbot, window)
    fill(window, decoder, "100")
    make(qtbot, window)
    assert window.text.out.toPlainText().split() == ["101", "102", "103"]


def test_a_greedy_text_is_checked_on_request(qtbot, window, texts, decoder):
    fill(window, decoder)
    assert not window.text.check_button.isEnabled()
    make(qtbot, window)
    with qtbot.waitSignal(window.session.done):
        window.text.check_button.click()
    assert window.text.checked.text() == "Native ONNX Runtime: 8 the same, 1 ties, 0 wrong."
    window.text.form.top_k.setValue(5)
    make(qtbot, window)
    assert texts.requests[-1].sampling.top_k == 5
    assert not window.text.check_button.isEnabled(), "ONNX Runtime would draw otherwise"
    assert not window.text.checked.isVisible()


def test_a_model_without_a_past_is_told_with_what_to_export(
    qtbot, window, texts, decoder, model_file
):
    assert window.text.out.placeholderText() == "Type a prompt, then start."
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    assert "tiny is no decoder" in window.text.out.placeholderText()
    assert "text-generation-with-past" in window.text.out.placeholderText()
    assert not window.text.button.isEnabled()
    fill(window, decoder)
    assert window.text.button.isEnabled(), "a file of its own"


def test_a_wrong_prompt_is_one_sentence(window, texts, decoder):
    for prompt, said in (
        ("", "prompt is empty"), ("-1", "negative"), ("1,-", "something else than numbers"),
    ):  # fmt: skip
        fill(window, decoder, prompt)
        window.text.button.click()
        assert said in window.text.caption.text()
        assert not window.session.busy and not texts.requests


def test_a_missing_decoder_is_told(window, texts, tmp_path):
    window.text.form.prompt.setPlainText("1")
    window.text.button.click()
    assert "No decoder is chosen" in window.text.caption.text()
    window.text.form.decoder.setText(str(tmp_path / "none.onnx"))
    window.text.button.click()
    assert "none.onnx is not there" in window.text.caption.text()


def test_an_error_of_the_import_is_told_in_both_places(qtbot, window, texts, decoder):
    texts.error = ModelError("The model has no past keys and values.", "Export it with them.")
    fill(window, decoder)
    with qtbot.waitSignal(window.session.problem):
        window.text.button.click()
    words = "The model has no past keys and values. Export it with them."
    assert window.text.caption.text() == window.message.text.text() == words


def test_the_prompt_comes_from_a_file(window, texts, tmp_path):
    path = tmp_path / "ids.txt"
    path.write_text("1, 2\n3")
    window.text.read_prompt(path)
    assert window.text.form.prompt.toPlainText() == "1, 2, 3"
    path.write_text("one")
    window.text.read_prompt(path)
    assert "ids.txt holds something else" in window.text.caption.text()
    assert window.text.form.prompt.toPlainText() == "1, 2, 3"


def test_f9_shows_the_dock_and_takes_the_keyboard(qtbot, window):
    window.actions_by_id["text"].trigger()
    assert window.docks["text"].seen
    qtbot.waitUntil(lambda: window.text.form.prompt.hasFocus())
    qtbot.keyClick(window.text.form.prompt, Qt.Key.Key_Tab)
    assert not window.text.form.prompt.hasFocus(), "Tab leaves the field"


def test_fields_stand_at_the_top_of_a_high_dock(qtbot, window):
    window.docks.show("text")
    form = window.text.form
    form.resize(460, 900)
    qtbot.waitUntil(lambda: form.prefill.mapTo(form, form.prefill.rect().bottomLeft()).y() > 100)
    assert form.prefill.mapTo(form, form.prefill.rect().bottomLeft()).y() < 450


def test_a_lost_page_is_passed_on(window, texts):
    window.page.lost("it crashed")
    assert texts.forgotten == 1


def test_rates_need_a_second_token():
    state = TextState()
    assert state.rate is None and state.recent_rate is None and state.prompt_ms is None
    state.take(TokenMade(0, Token(1, 30.0, 0.1)))
    assert state.rate is None and state.recent_rate is None and state.prompt_ms == 30.0
    state.take(TokenMade(1, Token(1, 2500.0, 0.1)))
    assert state.rate == state.recent_rate == 0.4, "one slow token is the latest time"
    state.take(TokenMade(2, Token(1, 500.0, 0.1)))
    assert state.recent_rate == 2.0 and state.rate == pytest.approx(2000 / 3000)


def test_words_go_as_they_are_and_letters_come_back(qtbot, window, texts, decoder):
    fill(window, decoder, "Once upon 2 times")
    form = window.text.form
    form.top_k.setValue(9)
    form.top_p.setValue(0.5)
    form.penalty.setValue(1.5)
    request = form.request(None)
    assert (request.ids, request.text) == ((), "Once upon 2 times")
    assert (request.sampling.top_p, request.sampling.repetition_penalty) == (0.5, 1.5)
    state = window.session.state.text
    state.take(TextBegun(request, 64, 0))
    for i, letters in enumerate(("Once", "", " é")):
        state.take(TokenMade(i, Token(i, 1.0, 0.5), letters))
    window.text.refresh(frozenset({"text"}))
    assert window.text.out.toPlainText() == "Once é"
    assert not state.may_be_checked


def test_buttons_for_files_show_their_words(window):
    window.docks.show("text")
    form = window.text.form
    for button in (form.decoder_button, form.prompt_button, form.prefill_button):
        assert button.width() >= button.sizeHint().width(), "… was cut to a point"


def test_the_second_fields_stand_in_a_column(window):
    form = window.text.form
    form.resize(400, 320)
    form.layout().activate()
    assert len({f.geometry().left() for f in (form.capacity, form.temperature, form.penalty)}) == 1
    assert form.tokens.geometry().right() == form.top_k.geometry().right()
