"""The trace keeps the rules of the trace-event format, so that Perfetto opens it."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from typing import Any

import pytest
from profiles import profile

from nnjit_studio.analysis.profile.trace import trace_events

EVENTS: list[dict[str, Any]] = trace_events(profile())["traceEvents"]
PHASES = {"M": set(), "X": {"ts", "dur"}, "C": {"ts"}}
"""What each kind of event needs beside ``ph``, ``pid``, ``name`` and ``args``."""


def test_it_is_json_with_events() -> None:
    document = json.loads(json.dumps(trace_events(profile()), allow_nan=False))
    assert document["displayTimeUnit"] in ("ms", "ns")
    assert document["traceEvents"] == EVENTS


def test_every_event_has_its_fields() -> None:
    for event in EVENTS:
        assert {"ph", "pid", "tid", "name", "args"} | PHASES[event["ph"]] <= set(event)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert isinstance(event["name"], str) and event["name"]
        for field in PHASES[event["ph"]]:
            assert isinstance(event[field], (int, float)) and event[field] >= 0
        if event["ph"] == "C":
            assert event["args"] and all(
                isinstance(v, (int, float)) for v in event["args"].values()
            )


def test_every_track_has_a_name() -> None:
    named = defaultdict(set)
    for event in EVENTS:
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert event["args"]["name"]
            named[event["name"]].add((event["pid"], event["tid"]))
    used = {(e["pid"], e["tid"]) for e in EVENTS if e["ph"] != "M"}
    assert used <= named["thread_name"]
    assert {pid for pid, _ in used} <= {pid for pid, _ in named["process_name"]}


def test_spans_of_a_track_follow_each_other() -> None:
    tracks = defaultdict(list)
    for event in EVENTS:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert set(tracks) == {(1, 1), (2, 1), (2, 2)}  # the cold start, the caller, the helper
    for spans in tracks.values():
        assert spans == sorted(spans)
        for (_, end), (begin, _) in itertools.pairwise(spans):
            assert begin >= end or begin == pytest.approx(end)


def test_steps_and_counters() -> None:
    spans = [e for e in EVENTS if e.get("cat") == "kernel" and e["tid"] == 1]
    assert [e["name"] for e in spans] == ["matmul+bias", "transpose", "matmul"]
    assert spans[0]["dur"] == pytest.approx(1.0)  # microseconds
    assert spans[0]["args"]["fused from"] == "MatMul, Add"
    assert spans[0]["args"]["chunks"] == "8 of 8"
    (helped,) = (e for e in EVENTS if e.get("cat") == "kernel" and e["tid"] == 2)
    assert (helped["name"], helped["args"]["chunks"]) == ("matmul", "3 of 8")
    counters = defaultdict(list)
    for e in EVENTS:
        if e["ph"] == "C":
            counters[e["name"]] += e["args"].values()
    assert counters == {"busy threads": [1, 1, 2, 0], "live arena": [512, 768, 768]}
