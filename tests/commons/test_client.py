"""A device's side, against a real server in this process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from click.testing import CliRunner
from reports import GOOD, OTHER, PLACE, accept, finding, key_of, report, timing
from test_database import record
from tuner_fakes import TUNABLE, Stage

from nnjit_studio.cli import fleet as fleet_verbs
from nnjit_studio.cli.commons import share as verbs
from nnjit_studio.cli.commons.known import Known
from nnjit_studio.commons.client.findings import findings_of, place_of
from nnjit_studio.commons.client.home import parts_of
from nnjit_studio.commons.client.maps import Common, ask_map, common_of
from nnjit_studio.commons.client.sharing import Sharing
from nnjit_studio.commons.client.web import ask, send
from nnjit_studio.commons.report.document import Finding
from nnjit_studio.commons.report.signed import read_signed, sign
from nnjit_studio.commons.server.app import ServerOptions, Service, application
from nnjit_studio.commons.server.store import Store
from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.host import host_profile
from nnjit_studio.errors import CommonsError
from nnjit_studio.fleet.jobs import Ended, Outcome
from nnjit_studio.records import TuningRecord
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.tuner.events import Finished, Measured, SessionStarted, SpaceBuilt

THIRD = "x0=8,y0=5,r0=4,x1=8,y1=5,r1=768,order=nm,pack=1"
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0.7 Safari/537.36"
HOST = host_profile()
SAMPLES = tuple(1 + n / 100 for n in range(20))


def tuned() -> list[TuningRecord]:
    """A default and two candidates of one session, as the database has them."""
    base = record()
    key = replace(
        base.key, kind="matmul", dims="384x768x768", dtype="f32", layout="row-major+bias",
        device_id=HOST.device_id, target="chromium", tier="relaxed-simd", compiler_version="9",
        primitive_vector=HOST.primitive_vector,
    )  # fmt: skip
    whole = replace(base, key=key, browser=AGENT, samples_ms=SAMPLES, note="secret", tags="mine")
    half = tuple(s / 2 for s in SAMPLES)
    return [
        replace(whole, settings="default", state="default", created="2026-11-23T10:00:00+00:00"),
        replace(
            whole,
            settings=OTHER,
            state="slower",
            created="2026-11-23T10:00:05+00:00",
            speedup=0.9,
            speedup_low=0.88,
            speedup_high=0.92,
        ),
        replace(
            whole,
            settings=GOOD,
            state="won",
            samples_ms=half,
            created="2026-11-23T10:00:09+00:00",
            speedup=2.0,
            speedup_low=1.9,
            speedup_high=2.1,
        ),
    ]


class Web:
    """A server on this machine, with what it was sent."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(f"sqlite:///{folder / 'commons.db'}")
        self.bodies: list[bytes] = []
        config = uvicorn.Config(
            self._app, port=0, log_level="critical", lifespan="off", interface="asgi3"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self._inner = application(Service(self.store, ServerOptions(self.address)))

    async def _app(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        async def heard():  # type: ignore[no-untyped-def]
            message = await receive()
            self.bodies.append(message.get("body", b""))
            return message

        await self._inner(scope, heard, send)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self.store.close()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    made = Web(tmp_path)
    yield made
    made.close()


def test_findings_hold_a_session_and_nothing_else_of_the_records() -> None:
    (found,) = findings_of(tuned(), HOST)
    assert [t.settings for t in found.best] == [GOOD, OTHER]
    assert found.default.low_ms < found.default.ms < found.default.high_ms
    assert (found.place.engine, found.place.version) == ("chromium", 156)
    assert "secret" not in str(found) and "Mozilla" not in str(found)


def test_times_are_those_of_duels_whatever_the_clock_said() -> None:
    """A default that was timed before the engine was warm would promise too much."""
    cold, other, won = tuned()
    cold = replace(cold, samples_ms=tuple(7 * s for s in SAMPLES))
    then = replace(
        other, settings=THIRD, state="won", created="2026-11-23T10:00:12+00:00",
        speedup=1.5, speedup_low=1.4, speedup_high=1.6,
    )  # fmt: skip
    untold = replace(other, settings="x0=4,y0=1,r0=1", speedup=0.0, created=then.created)
    (found,) = findings_of([cold, other, won, then, untold], HOST)
    gains = {t.settings: found.default.ms / t.ms for t in found.best}
    assert gains == pytest.approx({THIRD: 3.0, GOOD: 2.0, OTHER: 0.9}, rel=1e-5)
    assert found.default.ms / found.best[0].high_ms == pytest.approx(1.9 * 1.4, rel=1e-5)


@pytest.mark.parametrize(
    "changes",
    [{"target": "chromium+flat"}, {"tier": "wgsl"}, {"device_id": "f" * 16}],
)
def test_what_is_not_of_this_device_stays(changes: dict[str, str]) -> None:
    from nnjit_studio.records.lab import LABS

    if "target" in changes:
        changes = {"target": f"chromium+{next(iter(LABS))}"}
    others = [replace(r, key=replace(r.key, **changes)) for r in tuned()]
    assert findings_of(others, HOST) == []
    assert findings_of(tuned()[1:], HOST) == [], "without its default a time compares with nothing"


def test_the_bytes_that_are_shown_are_the_bytes_that_travel(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Sharing(tmp_path / "mine")
    monkeypatch.setattr(verbs, "sharing", lambda: own)
    database = tmp_path / "kernels.db"
    with KernelDatabase.open(database) as known:
        for each in tuned():
            known.commit_record(each)
    arguments = ["send", web.address, "--database", str(database)]
    run = CliRunner()
    refused = run.invoke(verbs.share, arguments, input="n\n")
    assert "byte for byte" in refused.stderr and web.bodies == [] and own.sent() == []
    agreed = run.invoke(verbs.share, arguments, input="y\n")
    assert agreed.exit_code == 0, agreed.output
    shown = agreed.stdout.splitlines()[0]
    assert b"".join(web.bodies) == shown.encode() == str(own.sent()[0]["document"]).encode()
    assert read_signed(shown.encode()).report.number == 1
    assert web.store.counts()["ballots"] == 1
    assert json.loads(run.invoke(verbs.share, ["log", "--json"]).stdout) == own.sent()


def test_one_switch_stops_it(tmp_path: Path) -> None:
    own = Sharing(tmp_path / "mine")
    own.switch(False)
    with pytest.raises(CommonsError, match="switched off"):
        own.prepare("https://commons.example.org", [finding()], 1)
    own.switch(True)
    assert own.prepare("https://commons.example.org", [finding()], 1)


def test_a_cold_device_gets_what_others_found(web: Web) -> None:
    (mine,) = findings_of(tuned(), HOST)
    for n in range(1, 7):
        best = tuple(replace(t, ms=t.ms + n * 1e-6) for t in mine.best)
        made = report(server=web.address, findings=(replace(mine, best=best),))
        accept(web.store, read_signed(sign(made, key_of(n))), f"s{n}", int(time.time()))
    told = ask(web.address, mine.place)
    known = Known(told)
    asked: list[tuple[str, str]] = []
    said = known.request(
        ["matmul:384x768x768:f32+bias#0a", "softmax:1x2:f32#0b"],
        lambda key, settings, _: asked.append((key, settings)) is None,
    )
    assert [settings for _, settings in asked] == [GOOD, OTHER] and "1 of 2" in said
    assert parts_of("matmul:1x2x3:f32#0c") == ("matmul", "1x2x3", "f32", "row-major")


def test_a_map_names_a_bucket_and_tells_of_the_kernel_alone(web: Web) -> None:
    told_by_six(web, {f"matmul:384x768x{n}:f32#0a": (GOOD, 1.5) for n in (64, 128)})
    (kind,) = ask_map(web.address, ("matmul", "384x768x64", "f32", "row-major"))
    assert kind.winner == (GOOD, pytest.approx(1.5, rel=0.01)) and kind.sources == 6
    common = common_of([kind, replace(kind, best=((OTHER, 2.0), (GOOD, 1.0)))])
    assert common == Common(GOOD, 0.5)
    assert ask_map(web.address, ("matmul", "1x1x1", "f32", "row-major")) == []
    with pytest.raises(CommonsError, match="cannot be reached"):
        ask_map("http://127.0.0.1:9", ("matmul", "1x1x1", "f32", "row-major"))


def test_a_refusal_is_told_in_the_servers_words(web: Web) -> None:
    old = report(server=web.address, created=1)
    with pytest.raises(CommonsError, match="expired"):
        send(web.address, sign(old, key_of(1)))
    with pytest.raises(CommonsError, match="cannot be reached"):
        ask("http://127.0.0.1:9", PLACE)


def test_an_unknown_browser_has_no_place() -> None:
    assert place_of(tuned()[0].key, HOST, "curl/8") is None


def told_by_six(web: Web, places: dict[str, tuple[str, float]]) -> None:
    """Six devices report settings and their speed-up over the default, by workload key."""
    (mine,) = findings_of(tuned(), HOST)
    findings = []
    for key, (settings, speedup) in places.items():
        kind, dims, dtype, layout = parts_of(key)
        place = replace(mine.place, kind=kind, dims=dims, dtype=dtype, layout=layout)
        findings.append((place, settings, speedup))
    for n in range(1, 7):
        sent = tuple(
            Finding(place, timing("default", 10 + n * 1e-6), (timing(s, 10 / gain + n * 1e-6),))
            for place, s, gain in findings
        )
        made = report(server=web.address, findings=sent)
        accept(web.store, read_signed(sign(made, key_of(n))), f"s{n}", int(time.time()))


def session_from(known: Known | None) -> tuple[int, float, Finished]:
    """Rounds of a cold session against a played page, their seconds, and its summary."""
    stage, rounds, began_s, last_s = Stage(), 0, 0.0, 0.0
    session = stage.session(exhaustive=False)
    for event in session.run():
        if known and isinstance(event, SessionStarted):
            known.request(
                event.workloads,
                lambda key, text, enough: not session.request(key, parse_candidate(text), enough),
            )
        if isinstance(event, SpaceBuilt):
            began_s = event.t_s
        elif isinstance(event, Measured):
            rounds, last_s = rounds + 1, event.t_s
    assert isinstance(event, Finished)
    return rounds, last_s - began_s, event


def test_with_a_good_answer_a_session_ends_after_two_rounds_a_workload(web: Web) -> None:
    (mine,) = findings_of(tuned(), HOST)
    alone, alone_s, cold = session_from(None)
    winners = {w.workload: w for w in cold.workloads if w.best != "default"}
    assert len(winners) == len(TUNABLE)
    gains = {k: (w.best, w.gflops["after"] / w.gflops["before"]) for k, w in winners.items()}
    told_by_six(web, gains)
    helped, helped_s, warm = session_from(Known(ask(web.address, mine.place)))
    print(f"rounds {alone} -> {helped}, seconds {alone_s:.1f} -> {helped_s:.1f} (played)")
    assert helped <= 2 * len(TUNABLE) < alone
    assert helped_s < alone_s / 4
    assert {w.workload: w.best for w in warm.workloads if w.best != "default"} == {
        k: best for k, (best, _) in gains.items()
    }


def test_a_promise_that_is_not_kept_starts_the_own_search(web: Web) -> None:
    (mine,) = findings_of(tuned(), HOST)
    slow = "x0=8,y0=8,r0=4,x1=8,y1=8,r1=768,order=nm,pack=1"
    told_by_six(web, {TUNABLE[0].key: (slow, 40.0)})
    _, _, cold = session_from(None)
    rounds, _, misled = session_from(Known(ask(web.address, mine.place)))
    assert rounds > 2 * len(TUNABLE)
    assert misled.model_ms["after"] == pytest.approx(cold.model_ms["after"], rel=0.02)


def test_a_fleet_shares_what_it_found_and_asks_first(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Sharing(tmp_path / "mine")
    monkeypatch.setattr(verbs, "sharing", lambda: own)
    monkeypatch.setattr(fleet_verbs, "sharing", lambda: own)
    with KernelDatabase.open(tmp_path / "job.db") as found:
        for each in tuned():
            found.commit_record(each)
    records = (tmp_path / "job.db").read_bytes()
    monkeypatch.setattr(fleet_verbs, "connected", lambda _: nullcontext())
    monkeypatch.setattr(
        fleet_verbs, "run",
        lambda _, jobs, send_files: [Ended(job, "w", 1.0, Outcome({}, records)) for job in jobs],
    )  # fmt: skip
    monkeypatch.setattr(fleet_verbs, "_result", lambda *_: "done")
    model = tmp_path / "m.onnx"
    model.write_bytes(b"model")
    words = ["tune", str(model), "--database", str(tmp_path / "all.db"), "--server", web.address]
    run = CliRunner()
    refused = run.invoke(fleet_verbs.fleet, words, input="n\n")
    assert refused.exit_code == 0 and "Nothing was sent" in refused.stderr and web.bodies == []
    agreed = run.invoke(fleet_verbs.fleet, [*words, "--yes"])
    assert agreed.exit_code == 0, agreed.output
    sent = b"".join(web.bodies)
    assert sent.decode() in agreed.stdout
    assert [t.settings for t in read_signed(sent).report.findings[0].best] == [GOOD, OTHER]
    assert web.store.counts()["ballots"] == 1
    own.switch(False)
    monkeypatch.setattr(fleet_verbs, "run", lambda *_, **__: pytest.fail("work for nothing"))
    assert run.invoke(fleet_verbs.fleet, words).exit_code != 0
