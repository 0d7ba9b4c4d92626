"""Text tables."""

from nnjit_studio.support.tables import text_table


def test_numbers_are_right_and_text_is_left():
    shown = text_table(["step", "ms", "bound"], [["a", "1.5", "x"], ["bcd", 12, None]], {0, 2})
    assert shown == "step   ms  bound\na     1.5  x\nbcd    12"


def test_without_titles_there_is_no_line_of_titles():
    assert text_table(["", ""], [["a", 1], ["bb", 22]]) == "a    1\nbb  22"


def test_no_rows():
    assert text_table(["a", "b"], []) == "a  b"


def test_terminal_settings_change_nothing(monkeypatch):
    plain = text_table(["name", "n"], [["x" * 300, 1]])
    for name, value in {"COLUMNS": "20", "FORCE_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    assert text_table(["name", "n"], [["x" * 300, 1]]) == plain
    assert "\x1b" not in plain and "x" * 300 in plain


def test_cells_are_text_not_markup():
    assert text_table(["[b]n[/b]"], [["[red]x :smile:"]]) == "[b]n[/b]\n[red]x :smile:"
