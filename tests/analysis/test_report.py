"""The report of a session and the table for the terminal."""

import html.parser
import json
import math
import os
import re
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE_S

from nnjit_studio.analysis.line_plot import Series, line_plot, nice_ticks
from nnjit_studio.analysis.report import (
    left_text,
    number,
    peak_text,
    summary_table,
    write_report,
)
from nnjit_studio.analysis.session_events import short_name
from nnjit_studio.engine.browsers.browsers import find, is_root
from nnjit_studio.errors import UserError
from nnjit_studio.records.gain import TOO_BUSY, UNCHANGED, ModelGain
from nnjit_studio.records.outcomes import NOT_TOLD_APART
from nnjit_studio.tuner.events import (
    Compiled,
    Event,
    Failed,
    Finished,
    Measured,
    ModelTimed,
    RoundDone,
    SessionStarted,
    SpaceBuilt,
    Swapped,
    WorkloadSummary,
)

CREATED = "2026-11-20T12:00:00+00:00"
TARGET = {
    "target": "embedded",
    "device_id": "cpu-1",
    "user_agent": "Mozilla/5.0 Chrome/140.0",
    "flags": "",
    "cores": 2,
    "timer_quantum_ms": 0.1,
    "tier": "relaxed-simd",
    "peak_gflops": {"relaxed-simd": 96.5},
}
SHAPES = ("384x384x384", "384x384x1536", "384x1536x384", "12x384x32x384", "1x384x30522")
WORKLOADS = tuple(f"matmul:{dims}:f32+bias#0123456789ab" for dims in SHAPES)


def settings(i: int) -> str:
    return f"x0={4 * (1 + i % 4)},y0={1 + i % 8},r0=4,x1=16,y1=24,r1=384,order=nm,pack=1"


def session(workloads: tuple[str, ...] = WORKLOADS, rounds: int = 12) -> list[dict[str, Any]]:
    """Events of a made-up session with rising rates."""
    events: list[Event] = [SessionStarted(0.0, "tiny-bert.onnx", workloads, TARGET)]
    events.append(ModelTimed(0.2, 48.2, (48.0, 48.2, 49.1)))
    summaries = []
    t, model_ms = 0.3, 48.2
    for w, workload in enumerate(workloads):
        names = tuple(settings(i) for i in range(rounds))
        events.append(SpaceBuilt(t, workload, names, ("fits L1",) * rounds, 41472, 0))
        before = best = 18.0 + 3 * w
        best_name = "default"
        events.append(Measured(t, workload, "default", "default", "", before, 1.2, (1.2, 1.3)))
        for i, name in enumerate(names):
            t += 0.11
            rate = before * (0.7 + 1.6 * math.sin(1 + i / 4 + w) ** 2)
            won = rate > best * 1.03
            failed = i == 5
            events.append(Compiled(t, workload, name, 3.0 + i / 7, 2100, {}, ""))
            if failed:
                reason = "unreachable"
                events.append(Measured(t, workload, name, "failed", reason, 0.0, 0.0))
                continue
            state, why = ("won", "faster") if won else ("slower", "no gain of 3 %")
            events.append(
                Measured(t, workload, name, state, why, rate, 20 / rate, (0.4,) * 12, 1.2, 1.1, 1.3)
            )
            if won:
                events.append(Swapped(t, workload, name, best, rate))
                best, best_name = rate, name
                model_ms *= 0.97
                events.append(ModelTimed(t, model_ms, (model_ms,) * 3))
            events.append(
                RoundDone(t, workload, i + 1, name, rate, best, best_name, rounds - i - 1)
            )
        summaries.append(
            WorkloadSummary(
                workload,
                12 - w,
                rounds,
                rounds + 1,
                {"before": before, "after": best},
                {"before": 20 / before, "after": 20 / best},
                best_name,
                0.4 / (w + 1),
            )
        )
    quiet = {"before": 0.0, "after": 0.0}
    summaries.append(
        WorkloadSummary("softmax:12x384x384:f32#1", 6, 0, 1, quiet, quiet, "default", 0.004)
    )
    events.append(
        Finished(
            t + 0.1,
            "exhausted",
            "tiny-bert.onnx",
            {"before": 48.2, "after": model_ms},
            {"median": 3.4, "p99": 6.1},
            t - 0.4,
            tuple(summaries),
            TARGET,
            gain=ModelGain("faster", 48.2 / model_ms, 1.02, 1.9, 24, 1.0),
            outcomes={"won": 2, "faster": 1, "slower": 4, "not told apart": 5},
            kept=2,
            of_peak=0.84,
        )
    )
    return [event.to_json() for event in events]


class Outline(html.parser.HTMLParser):
    """Tags, attributes and text of a page; checks that tags are closed in order."""

    VOID = ("meta", "br", "line", "circle", "path")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID or (
            tag == "circle" and "/>" not in (self.get_starttag_text() or "")
        ):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def write(tmp_path: Path, events: list[dict[str, Any]]) -> str:
    out = write_report(
        tmp_path / "report.html", events, created=CREATED, versions={"NNJIT Studio": "0.1.0"}
    )
    return out.read_text("utf-8")


def test_a_session_that_ends_without_a_gain_says_that_nothing_is_left() -> None:
    workloads = [{"candidates": 12}, {"candidates": 5}]
    summary = {"reason": "converged", "kept": 2, "outcomes": {}, "workloads": workloads}
    assert "the best of 17 known ways is in use" in left_text(summary)
    for more in ({"outcomes": {"won": 1}}, {"reason": "time"}, {"workloads": []}):
        assert left_text({**summary, **more}) == ""


def test_the_share_of_the_peak_says_whose_it_is() -> None:
    assert peak_text({"of_peak": 0.97, "kept": 2}).startswith("the tuned kernels run at 97%")
    assert peak_text({"of_peak": 0.97, "kept": 0}).startswith("the untuned kernels run at 97%")
    assert peak_text({"kept": 2}) == ""
    assert peak_text({"of_peak": 0.97, "warning": "machine busy"}) == ""


def test_a_report_says_what_happened(tmp_path: Path) -> None:
    events = session()
    text = write(tmp_path, events)
    outline = Outline(text)
    words = " ".join(" ".join(outline.text).split())
    after = events[-1]["model_ms"]["after"]
    for part in (
        "tiny-bert.onnx",
        f"48.2 ms → {after:.1f} ms",
        f"{48.2 / after:.2f}× (1.02 to 1.90, 24 pairs)",  # noqa: RUF001
        "12 tried: 2 kept, 3 faster in a duel, 4 slower, 5 not told apart",
        "the tuned kernels run at 84% of this machine's peak",
        CREATED,
        "embedded",
        "Mozilla/5.0 Chrome/140.0",
        "96.5 GFLOP/s, one thread",
        "3.40 ms",
        "6.10 ms",
        "NNJIT Studio 0.1.0",
        "12 candidates, the naive space 41472",
        "unreachable",
        "40.0 %",
    ):
        assert part in words
    assert "None" not in words
    assert outline.tags.count("details") == 5
    assert outline.tags.count("figure") == 2
    # header rows, workloads, candidates with their default, target
    assert outline.tags.count("tr") == 1 + 6 + 5 * (1 + 13) + 7


def test_a_report_needs_nothing_from_outside(tmp_path: Path) -> None:
    text = write(tmp_path, session())
    outline = Outline(text)
    assert not {"script", "img", "link", "iframe", "object"} & set(outline.tags)
    assert not {name for name, _ in outline.attributes} & {"src", "href", "onload", "style"}
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text


@pytest.mark.chromium
def test_no_table_is_cut_at_a_width_of_1000(tmp_path: Path) -> None:
    """The column of settings was."""
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    look = """<script>
        for (const details of document.querySelectorAll("details")) details.open = true;
        const tables = [...document.querySelectorAll(".scroll")];
        const cut = tables.map((e) => e.scrollWidth - e.clientWidth);
        document.documentElement.dataset.cut = cut.join();
    </script>"""
    text = write(tmp_path, session())
    page = tmp_path / "looked_at.html"
    page.write_text(re.sub("<meta http-equiv=[^>]*>", "", text) + look, "utf-8")
    browser, sandbox = find("chromium"), ["--no-sandbox"] * is_root()
    done = subprocess.run(
        [browser.path, *sandbox, "--headless", "--disable-gpu", "--window-size=1000,800",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    found = re.search('data-cut="([^"]*)"', done.stdout)
    assert found, done.stderr
    assert set(found[1].split(",")) == {"0"}


def test_equal_events_give_equal_bytes(tmp_path: Path) -> None:
    assert write(tmp_path, session()) == write(tmp_path, session())


def test_hostile_names_are_only_text(tmp_path: Path) -> None:
    evil = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    events = session((evil, f"matmul:{evil}#1"), 3)
    events[0]["model"] = events[-1]["model"] = evil
    events[-1]["target"] = {**TARGET, "user_agent": evil, "device_id": evil}
    for event in events:
        if event["event"] == "measured":
            event["reason"] = event["candidate"] = evil
    events.append(Failed(9.0, {"ok": False, "kind": "bug", "error": evil, "hint": evil}).to_json())
    text = write(tmp_path, events)
    outline = Outline(text)
    assert not {"script", "img"} & set(outline.tags)
    assert "onerror" not in {name for name, _ in outline.attributes}
    assert outline.text.count(evil) >= 3
    assert "The session failed." in outline.text


def test_a_session_that_was_cut_short(tmp_path: Path) -> None:
    events = session()[:60]
    text = write(tmp_path, events)
    words = " ".join(" ".join(Outline(text).text).split())
    assert "The session has no summary" in words
    timed = [event["ms"] for event in events if event["event"] == "model"]
    assert f"{number(timed[-1])} ms –" in words  # noqa: RUF001
    assert "nan" not in words.lower()
    only_failed = [Failed(0.0, {"error": "The page crashed.", "hint": "Try again."}).to_json()]
    words = " ".join(Outline(write(tmp_path, only_failed)).text)
    assert "The page crashed. Try again." in words
    assert "No workload was measured." in words
    assert "Nothing was measured." in words


def test_a_name_in_md_gets_markdown_tables_of_equal_columns(tmp_path: Path) -> None:
    path = write_report(tmp_path / "r.md", session(), created=CREATED, versions={"nnjit": "1"})
    text = path.read_text("utf-8")
    assert text.startswith("# tiny-bert.onnx\n") and "<" not in text
    assert "| MatMul 384x384 by 384x384, +bias |" in text
    tables = [block for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 4
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.strip().split("\n")}) == 1
    counts = [row.split(" | ") for row in tables[2].strip().split("\n")[2:]]
    assert [int(row[2]) for row in counts] == [
        sum(map(int, (row[3], row[4], row[5], row[6].rstrip(" |")))) + 1 for row in counts
    ]  # and the default


def test_hostile_names_are_only_text_in_markdown(tmp_path: Path) -> None:
    events = session(WORKLOADS[:1], 2)
    for event in events:
        for key in ("model", "reason"):
            if key in event:
                event[key] = "a|b\n# <b>*c*"
    text = write_report(tmp_path / "r.md", events, created=CREATED).read_text("utf-8")
    assert text.startswith(r"# a\|b\ufffd\# \<b\>\*c\*".replace(r"\ufffd", "\ufffd"))


def test_a_markdown_report_of_a_session_that_was_cut_short(tmp_path: Path) -> None:
    text = write_report(tmp_path / "r.md", session()[:9], created=CREATED).read_text("utf-8")
    assert "The session has no summary" in text


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to report"):
        write_report(tmp_path / "x.html", [], created=CREATED)
    with pytest.raises(UserError, match="cannot be written: No such file"):
        write_report(tmp_path / "no" / "x.html", session(), created=CREATED)
    assert list(tmp_path.iterdir()) == []


def test_the_table_for_the_terminal() -> None:
    finished = session()[-1]
    after = finished["model_ms"]["after"]
    lines = summary_table(finished).splitlines()
    assert lines[0] == (
        f"tiny-bert.onnx on embedded relaxed-simd: 48.2 ms -> {after:.1f} ms: "
        f"{48.2 / after:.2f}× (1.02 to 1.90, 24 pairs)"  # noqa: RUF001
    )
    assert lines[2].split()[:4] == ["workload", "uses", "rounds", "tried"]
    assert len(lines[3:8]) == 5
    assert len({len(line) for line in lines[2:8]}) == 1
    assert lines[3].startswith("matmul:384x384x384:f32+bias")
    assert lines[3].endswith("40.0 %")
    assert lines[8] == "and 1 more, not tuned, 0.4 % of the time"
    assert "3.40 ms a candidate (p99 6.10 ms)" in lines[10]


def test_on_a_gpu_the_model_s_time_is_said_to_hold_its_readback(tmp_path: Path) -> None:
    events = session()
    assert "read back" not in summary_table(events[-1])
    gpu = {**TARGET, "target": "chromium+webgpu", "tier": "wgsl", "gpu": {"vendor": "nvidia"}}
    events = [e | {"target": gpu} if "target" in e else e for e in events]
    words = "by the page's clock, its result read back"
    assert words in summary_table(events[-1]).splitlines()[0]
    for name in ("r.md", "r.html"):
        said = write_report(tmp_path / name, events, created=CREATED).read_text("utf-8")
        assert words in html.unescape(said)


def test_the_table_steers_no_terminal() -> None:
    finished = session()[-1]
    finished["model"] = "evil\x1b[2J\r\n"
    finished["workloads"][0]["workload"] = "mat\x1b]0;hi\x07mul#1"
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", summary_table(finished))


def test_the_table_of_nothing() -> None:
    nothing = replace(
        Finished(0.0, "cancelled", "m", {}, {}, 0.0, (), {}),
        model_ms={"before": 5.0, "after": 5.0},
        compile_ms={"median": 0.0, "p99": 0.0},
    )
    assert "5.00 ms: not compared" in summary_table(nothing.to_json())
    none = replace(nothing, model_ms={"before": 0.0, "after": 0.0}, of_peak=0.05)
    said = summary_table(none.to_json())
    assert "the session ended before the model was timed" in said.splitlines()[0]
    assert "0 ms: " not in said and "peak" not in said


def test_no_gain_is_printed_that_no_pairs_prove(tmp_path: Path) -> None:
    """Times of different moments, on a machine that got three times slower."""
    finished = session()[-1] | {"model_ms": {"before": 200.0, "after": 644.0}}
    for gain in (
        ModelGain(NOT_TOLD_APART, 0.97, 0.62, 1.3, 24, 0.95),
        ModelGain(TOO_BUSY, pairs=24, machine=0.31),
        ModelGain(),
    ):
        events = [*session()[:-1], finished | {"gain": asdict(gain), "warning": "machine busy"}]
        table = summary_table(events[-1])
        assert gain.outcome in table and "Machine busy." in table
        assert "0.31" not in table and "0.97" not in table and "->" not in table.splitlines()[0]
        text = write_report(tmp_path / "r.md", events, created=CREATED).read_text("utf-8")
        assert gain.outcome in text and "machine busy" in text and "0.97" not in text


@pytest.mark.parametrize("outcome", ["faster", "slower", UNCHANGED, NOT_TOLD_APART])
def test_a_report_is_green_where_the_model_is_faster_alone(tmp_path: Path, outcome: str) -> None:
    ratio = {"faster": 1.2, "slower": 0.8}.get(outcome)
    told = ModelGain(outcome, ratio, ratio, ratio, 24, 1.0)
    text = write(tmp_path, [*session()[:-1], session()[-1] | {"gain": asdict(told)}])
    assert ('<span class="gain">' in text) == (outcome == "faster")


def test_a_workload_without_a_check_is_told_as_such(tmp_path: Path) -> None:
    finished = session()[-1]
    first, *others = finished["workloads"]
    for left, which in (([first], "its check"), ([first, *others], "their checks")):
        few = [w | {"checked": w not in left} for w in finished["workloads"]]
        text = write(tmp_path, [*session()[:-1], finished | {"workloads": few}])
        table = summary_table(finished | {"workloads": few})
        shown = len(left) - (len(left) > 1)  # what takes no time has no line in a terminal
        assert text.count("<td>not checked</td>") == len(left) and table.count("not che") == shown
        for told in (text, table):
            assert f"not tuned: {which} did not end within the budget" in told
            assert ("and 3 more not tuned" in told) == (len(left) == 6)


def test_a_workload_s_gain_is_its_duels(tmp_path: Path) -> None:
    """Its unpaired rates say the opposite: the kernel that won was timed in a slower moment."""
    finished = json.loads(json.dumps(session()[-1]))
    finished["workloads"][0] |= {
        "gflops": {"before": 22.2, "after": 17.5},
        "ms": {"before": 1.0, "after": 1.27},
        "speedup": (1.25, 1.21, 1.29),
    }
    finished["workloads"][1] |= {"speedup": None}
    rows = summary_table(finished).splitlines()
    assert "1.25× (1.21 to 1.29)" in rows[3] and "0.79" not in rows[3]  # noqa: RUF001
    assert "unchanged" not in rows[4]


def test_numbers_for_people() -> None:
    values = [0.0, 0.012345, 1.2345, 12.345, 123.45, 41472.0, math.inf, math.nan, None, "inf", -3.0]
    assert [number(v) for v in values] == [
        "0", "0.0123", "1.23", "12.3", "123", "41472", "–", "–", "–", "–", "-3.00",  # noqa: RUF001
    ]  # fmt: skip
    assert short_name("matmul:1x2x3:f32#abc") == "matmul:1x2x3:f32"


@pytest.mark.parametrize("high", [1e-9, 0.013, 0.99, 1.0, 7.0, 10.0, 48.2, 1234.5, 3e12])
def test_ticks_are_round_and_reach_the_top(high: float) -> None:
    ticks = nice_ticks(high)
    assert ticks[0] == 0
    assert ticks[-1] >= high * (1 - 1e-9)
    assert 2 <= len(ticks) <= 7
    mantissa = f"{ticks[1]:.1e}".split("e")[0]
    assert mantissa in {"1.0", "2.0", "2.5", "5.0"}


def test_points_lie_where_their_numbers_say() -> None:
    plot = line_plot("t", "s", "ms", [Series("a", [(0, 0), (4, 10), (8, math.nan)], steps=True)])
    assert [label for _, label in plot.y_ticks] == ["0", "2", "4", "6", "8", "10"]
    (series,) = plot.series
    assert [(x, y) for x, y, _ in series.marks] == [
        (f"{plot.left:.1f}", f"{plot.bottom:.1f}"),
        (f"{plot.right:.1f}", f"{plot.top:.1f}"),
    ]
    assert series.marks[1][2] == "a: 10 ms at 4 s"
    assert series.path == f"M{plot.left}.0 {plot.bottom}.0H{plot.right}.0V{plot.top}.0"
    assert line_plot("t", "s", "ms", [Series("none", [])]).series == ()
    assert nice_ticks(math.nan) == nice_ticks(0) == nice_ticks(1)
