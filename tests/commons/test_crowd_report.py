"""What travels, and everything that is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reports import GOOD, NOW, OTHER, PLACE, SERVER, finding, key_of, report, timing

from nnjit_studio.commons.report.document import Finding, Place, Report
from nnjit_studio.commons.report.freshness import check_fresh, check_order
from nnjit_studio.commons.report.signed import MOST_BYTES, encode, read_signed, sign
from nnjit_studio.errors import CommonsError

DATA = sign(report(), key_of(1))


def refused(data: bytes) -> str:
    with pytest.raises(CommonsError) as e:
        read_signed(data)
    assert e.value.error.endswith(".") and e.value.error.count(". ") == 0
    return e.value.error


def test_a_report_comes_back_as_it_was_and_has_one_spelling() -> None:
    signed = read_signed(DATA)
    assert signed.report == report() and encode(signed) == DATA
    assert sign(report(), key_of(1)) == DATA


def test_only_settings_times_and_the_kind_of_device_travel() -> None:
    """The whole list of fields: one more needs a new consent."""
    body = json.loads(DATA)["report"]
    assert set(body) == {"format", "server", "number", "created", "findings"}
    assert set(body["findings"][0]) == {"place", "default", "best"}
    assert set(body["findings"][0]["default"]) == {"settings", "ms", "low_ms", "high_ms", "samples"}
    assert set(body["findings"][0]["place"]) == {
        "kind", "dims", "dtype", "layout", "primitives", "family", "device", "engine", "version",
        "tier", "threads", "compiler",
    }  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_no_byte_can_be_changed(at: int, flip: int) -> None:
    changed = bytearray(DATA)
    changed[at] ^= flip
    refused(bytes(changed))


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)))
def test_what_is_no_report_is_refused(data: bytes) -> None:
    refused(data)


def test_other_spellings_are_refused() -> None:
    assert "known form" in refused(DATA[:-1])
    assert "one spelling" in refused(DATA + b"\n")
    assert "one spelling" in refused(DATA.replace(b'"key"', b'"note":"me@example.org","key"', 1))
    assert "one spelling" in refused(DATA.replace(b'"ms":10.0', b'"ms":10.00', 1))
    assert "known form" in refused(b"[" * 100_000)
    assert f"{MOST_BYTES} bytes" in refused(DATA + b" " * MOST_BYTES)


def test_a_forged_report_is_refused() -> None:
    stranger = json.loads(sign(report(number=2), key_of(2)))
    own = json.loads(DATA)
    for changed in (own | {"key": stranger["key"]}, own | {"report": stranger["report"]}):
        spelled = json.dumps(changed, separators=(",", ":")).encode()
        assert "signature" in refused(spelled)
    assert "signature" in refused(DATA.replace(b'"key":"', b'"key":"zz', 1))


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "<script>"},
        {"kind": "My Secret Model"},
        {"dims": "0x1"},
        {"dims": "384x768\n"},
        {"device": "host.example.org"},
        {"engine": "Mozilla/5.0"},
        {"version": 0},
        {"tier": "x86"},
        {"threads": 0},
        {"family": "a" * 65},
        {"layout": "row-major+bias; DROP TABLE"},
    ],
)
def test_a_key_holds_only_what_it_may(changes: dict[str, object]) -> None:
    place: Place = replace(PLACE, **changes)  # type: ignore[arg-type]
    with pytest.raises(CommonsError, match=f"key's {next(iter(changes))}"):
        sign(report(findings=(finding(place),)), key_of(1))


@pytest.mark.parametrize(
    "wrong",
    [
        Finding(PLACE, timing(GOOD, 20), (timing(GOOD, 10),)),
        Finding(PLACE, timing("default", 20), ()),
        Finding(PLACE, timing("default", 20), (timing("default", 10),)),
        Finding(PLACE, timing("default", 20), (timing("(module)", 10),)),
        Finding(PLACE, timing("default", 20), (timing(GOOD.replace(",", ", "), 10),)),
        Finding(PLACE, timing("default", 20), (timing(OTHER, 12), timing(GOOD, 10))),
        Finding(PLACE, timing("default", 20), (timing(GOOD, 10), timing(GOOD, 10))),
        Finding(PLACE, timing("default", 20), (timing(GOOD, 0.0),)),
        Finding(PLACE, timing("default", 20), (timing(GOOD, float("inf")),)),
        Finding(PLACE, timing("default", 20), (replace(timing(GOOD, 10), low_ms=11.0),)),
        Finding(PLACE, timing("default", 20), (replace(timing(GOOD, 10), samples=0),)),
        Finding(replace(PLACE, tier="wgsl"), timing("default", 20), (timing(GOOD, 10),)),
    ],
)
def test_a_finding_holds_only_what_it_may(wrong: Finding) -> None:
    with pytest.raises(CommonsError):
        sign(report(findings=(wrong,)), key_of(1))


@pytest.mark.parametrize(
    "wrong",
    [
        report(format=2),
        report(server="file:///etc/passwd"),
        report(number=0),
        report(created=0),
        report(findings=()),
        report(findings=(finding(), finding())),
        report(findings=tuple(finding(replace(PLACE, threads=n)) for n in range(1, 66))),
    ],
)
def test_a_report_is_bounded(wrong: Report) -> None:
    with pytest.raises(CommonsError):
        sign(wrong, key_of(1))


def test_untimely_reports_are_refused() -> None:
    check_fresh(report(), SERVER, NOW)
    for made, now, why in (
        (report(), NOW + 8 * 86400, "expired"),
        (report(), NOW - 3600, "future"),
        (report(server="http://127.0.0.1:9"), NOW, "another server"),
    ):
        with pytest.raises(CommonsError, match=why):
            check_fresh(made, SERVER, now)


def test_a_report_counts_once() -> None:
    assert check_order(1, "a", None) and check_order(3, "b", (1, "a"))
    assert not check_order(3, "b", (3, "b")), "the answer was lost, and it was sent again"
    for number, digest in ((2, "c"), (3, "c")):
        with pytest.raises(CommonsError, match="sent before"):
            check_order(number, digest, (3, "b"))
