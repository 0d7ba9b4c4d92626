"""V8's lines, the verdict, the trace and the table."""

from nnjit_studio.foreign_wasm.inspection.cost.records import Compilation, CompileCost, TierCost
from nnjit_studio.foreign_wasm.inspection.cost.text import as_text
from nnjit_studio.foreign_wasm.inspection.cost.trace import trace_events
from nnjit_studio.foreign_wasm.inspection.cost.v8_lines import Compiled, parse
from nnjit_studio.foreign_wasm.inspection.cost.verdict import ADVICE, blamed, verdict

COMPILED = "Compiled function 0x2#"


def test_both_spellings_of_v8_are_read() -> None:
    old = parse(
        f"{COMPILED}7 using TurboFan, took 5 ms and 10 / 20 max/total bytes; "
        "bodysize 3 codesize 40 name f"
    )
    new = parse(f"{COMPILED}8 using Liftoff, took 57769 μs and 9 bytes; bodysize 3 codesize 4")
    assert old == Compiled(7, "turbofan", 5.0, 10, 40)
    assert new == Compiled(8, "liftoff", 57.769, 9, 4)


def test_other_lines_are_none() -> None:
    for line in ("", "Compiled function", "[1:2:3/4.5:ERROR:x.cc(1)] took 5 ms", "{}"):
        assert parse(line) is None


def cost(method: str, ms: dict[int, float], whole: float | None) -> CompileCost:
    functions = {i: TierCost((each,), 100, 2**21) for i, each in ms.items()}
    return CompileCost("chromium", "v", (Compilation("turbofan", method, functions, whole),))


def test_one_function_is_to_blame_when_it_is_most_of_the_time() -> None:
    found = cost("trace", {1: 900.0, 2: 50.0, 3: 50.0}, 1000.0)
    (blame,) = blamed(found, found.tiers[0])
    assert (blame.function, blame.share) == (1, 0.9)
    assert verdict(found) == (
        "chromium, turbofan: function 1 is to blame: it takes 900.00 ms and up to 2 MiB, "
        f"90% of the 1.0 s of the module.\n{ADVICE}"
    )


def test_nobody_is_to_blame_for_little_or_for_an_even_share() -> None:
    for ms in ({1: 90.0, 2: 5.0}, dict.fromkeys(range(10), 600.0), {}):
        found = cost("trace", ms, None)
        assert blamed(found, found.tiers[0]) == []
        assert "to blame: it takes" not in verdict(found)


def test_isolation_blames_by_the_whole_module_only() -> None:
    alone = cost("isolation", {1: 900.0}, None)
    assert blamed(alone, alone.tiers[0]) == []
    large = cost("isolation", {1: 900.0}, 90_000.0)
    assert blamed(large, large.tiers[0]) == []
    some = cost("isolation", {1: 90.0, 2: 80.0}, 90_000.0)
    assert "none of the 2 measured functions is to blame; the slowest is function 1" in verdict(
        some
    )
    most = cost("isolation", {1: 900.0}, 1000.0)
    assert [b.function for b in blamed(most, most.tiers[0])] == [1]


def test_samples_have_a_median_and_a_spread() -> None:
    many = TierCost((3.0, 1.0, 2.0), 5)
    assert many.to_json() == {"ms": 2.0, "low": 1.0, "high": 3.0, "bytes": 5, "memory_bytes": None}


def test_the_trace_has_each_function_once_with_its_time() -> None:
    events = trace_events(cost("trace", {1: 2.0, 2: 3.0}, 5.0), lambda i: "f" if i == 1 else "")[
        "traceEvents"
    ]
    spans = [(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert spans == [("2", 0.0, 3000.0), ("1 f", 3000.0, 2000.0)]


def test_the_first_words_tell_who_is_to_blame_and_what_to_do() -> None:
    found = cost("trace", {1: 900.0, 2: 50.0}, 1000.0)
    text = as_text(found, 5, lambda index: f"name{index}")
    first, advice = text.splitlines()[:2]
    assert first.startswith("chromium, turbofan: function 1 (name1) is to blame")
    assert advice == ADVICE
    assert "name2" in text
