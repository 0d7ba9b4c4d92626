"""The server on SQLite and on a real PostgreSQL, through its own routes."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from reports import GOOD, NOW, OTHER, PLACE, SERVER, accept, finding, key_of, report
from starlette.testclient import TestClient
from waiting import PATIENCE_S

from nnjit_studio.commons.report.buckets import bucket_of
from nnjit_studio.commons.report.document import HOME
from nnjit_studio.commons.report.signed import read_signed, sign
from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.server.app import ServerOptions, Service, application
from nnjit_studio.commons.server.counting import MOST_A_DAY, Arrival, QuotaError, put_all
from nnjit_studio.commons.server.intake import Intake
from nnjit_studio.commons.server.store import Store
from nnjit_studio.commons.server.tables import metadata
from nnjit_studio.commons.server.throttle import Throttle
from nnjit_studio.commons.server.transfer import export_commons, import_commons
from nnjit_studio.errors import CommonsError

ASKED = {name: str(getattr(PLACE, name)) for name in HOME}
OPTIONS = ServerOptions(SERVER, admin_token="open sesame", rate=1000, burst=10_000)


def client(store: Store, address: str = "192.0.2.1", **changes: object) -> TestClient:
    options = replace(OPTIONS, **changes)  # type: ignore[arg-type]
    service = Service(store, options, clock=lambda: NOW)
    return TestClient(application(service), client=(address, 5000))


def fill(store: Store, devices: int = 7, first: int = 1) -> None:
    for n in range(first, first + devices):
        signed = read_signed(sign(report(ms=10 + n / 100), key_of(n)))
        assert accept(store, signed, store.source(f"10.0.{n}.1"), NOW)


def test_the_schema_is_what_the_steps_make(store: Store) -> None:
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    again = Store(store.engine.url.render_as_string(hide_password=False))
    assert again.source("10.0.0.1") == store.source("10.0.0.2"), "one secret, one block"
    again.close()


def test_a_report_counts_once_and_is_acknowledged_again(store: Store) -> None:
    data = sign(report(), key_of(1))
    web = client(store)
    first, second = (web.post("/reports", content=data) for _ in range(2))
    assert (first.status_code, first.json()["new"]) == (200, True)
    assert (second.status_code, second.json()["new"]) == (200, False)
    other = web.post("/reports", content=sign(report(ms=3.0), key_of(1)))
    assert other.status_code == 400 and "sent before" in other.json()["error"]
    assert store.counts() == {"devices": 1, "places": 1, "ballots": 1, "snapshots": 0}
    assert web.post("/reports", content=sign(report(number=2), key_of(1))).json()["new"]
    assert store.counts()["ballots"] == 1, "a device has one voice on a key"


def test_a_database_that_died_acknowledges_nothing(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'commons.db'}")
    web = client(store)
    with store.engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE ballots"))
    refused = web.post("/reports", content=sign(report(), key_of(1)))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "Send the same report again" in refused.json()["hint"]
    store.close()


def test_the_same_report_many_times_at_once_counts_once(store: Store) -> None:
    signed = read_signed(sign(report(), key_of(1)))
    with ThreadPoolExecutor(8) as pool:
        new = list(pool.map(lambda _: accept(store, signed, "s", NOW), range(24)))
    assert new.count(True) == 1 and store.counts()["ballots"] == 1


def test_reports_of_one_transaction_have_answers_of_their_own(store: Store) -> None:
    def arrival(number: int, device: int, ms: float = 10.0) -> Arrival:
        return Arrival(read_signed(sign(report(number, ms), key_of(device))), "s", NOW)

    told = store.accept_all(
        [arrival(1, 1), arrival(1, 1), arrival(1, 1, ms=11.0), arrival(1, 2), arrival(2, 1)]
    )
    assert told[:2] == [True, False] and told[3:] == [True, True]
    assert isinstance(told[2], CommonsError) and "sent before" in told[2].error
    assert store.counts()["ballots"] == 2 and store.counts()["devices"] == 2


def test_what_comes_during_a_commit_shares_the_next_one() -> None:
    class Slow:
        sizes: tuple[int, ...] = ()

        def accept_all(self, arrivals: Sequence[Arrival]) -> list[bool]:
            self.sizes += (len(arrivals),)
            assert waiting.wait(PATIENCE_S)
            if len(self.sizes) == 3:
                raise OSError("the disk is gone")
            return [True] * len(arrivals)

    slow, waiting = Slow(), threading.Event()
    one = Arrival(read_signed(sign(report(), key_of(1))), "s", NOW)

    async def meanwhile() -> list[bool | BaseException]:
        intake = Intake(slow)  # type: ignore[arg-type]
        first = asyncio.create_task(intake.accept(one))
        while not slow.sizes:
            await asyncio.sleep(0.001)
        rest = [asyncio.create_task(intake.accept(one)) for _ in range(5)]
        await asyncio.sleep(0)  # each has run to its wait
        waiting.set()
        assert await asyncio.gather(first, *rest) == [True] * 6
        return await asyncio.gather(intake.accept(one), return_exceptions=True)

    (refused,) = asyncio.run(meanwhile())
    assert slow.sizes == (1, 5, 1) and isinstance(refused, OSError)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{}", "known form"),
        (sign(report(created=NOW - 30 * 86400), key_of(1)), "expired"),
        (sign(report(server="https://other.example.org"), key_of(1)), "another server"),
        (sign(report(), key_of(1)).replace(b":20.0,", b":20.05,"), "signature"),
        (b" " * 200_000, "too large"),
    ],
)
def test_what_is_wrong_is_refused_with_one_sentence(store: Store, data: bytes, why: str) -> None:
    answer = client(store).post("/reports", content=data)
    assert answer.status_code in (400, 413) and not answer.json()["ok"]
    assert why in answer.json()["error"] and answer.json()["error"].endswith(".")
    assert store.counts()["ballots"] == 0


def test_a_kernel_is_told_from_five_sources_on(store: Store) -> None:
    fill(store, 4)
    fill(store, 0)
    with client(store) as web:
        assert web.get("/kernels", params=ASKED).json()["kernels"] == []
    fill(store, 3, first=5)
    with client(store) as web:
        told = web.get("/kernels", params=ASKED)
        kernel = told.json()["kernels"][0]
        assert kernel["dims"] == PLACE.dims and kernel["belief"]["best"][0]["settings"] == GOOD
        assert kernel["belief"]["best"][0]["speedup"] == pytest.approx(2.0)
        assert set(told.json()["device"]) == set(HOME), "a question betrays no shape"
        like = web.get("/kernels", params={**ASKED, "device": "f" * 16}).json()["kernels"][0]
        assert like["belief"]["of_family"]
        assert web.get("/kernels", params={**ASKED, "tier": "simd128"}).json()["kernels"] == []


def test_answers_can_be_cached_for_ever(store: Store) -> None:
    fill(store)
    web = client(store)
    told = web.get("/kernels", params=ASKED)
    tag, where = told.headers["etag"], told.headers["content-location"]
    known = web.get("/kernels", params=ASKED, headers={"If-None-Match": tag})
    assert known.status_code == 304 and known.content == b""
    kept = web.get(where)
    assert kept.content == told.content and "immutable" in kept.headers["cache-control"]
    assert web.get("/snapshots/" + "0" * 64 + ".json").status_code == 404


def test_the_map_tells_what_wins_on_which_kind_of_device(store: Store) -> None:
    phone = replace(PLACE, family="cpu-32v-l1.64k-l2.512k", engine="webkit", device="f" * 16)
    fill(store, devices=6)
    with store.engine.begin() as connection:
        for n in range(5):
            voice = Ballot(f"p{n}", f"s{n}", phone.device, ((OTHER, 3.0 + n / 100), (GOOD, 2.0)))
            put_all(connection, [(phone, voice, NOW)])
            few = replace(phone, engine="firefox")
            put_all(connection, [(few, replace(voice, source=f"s{n % 4}"), NOW)])
    bucket = bucket_of(PLACE.kind, PLACE.dims, PLACE.dtype, PLACE.layout)
    told = client(store).get("/map", params={"bucket": bucket})
    (kernel,) = told.json()["kernels"]
    assert {(d["family"], d["engine"]) for d in kernel["devices"]} == {
        (PLACE.family, "chromium"), (phone.family, "webkit"),
    }, "four sources of a kind are not told of"  # fmt: skip
    same = client(store).get("/map", params={"bucket": bucket})
    assert same.headers["etag"] == told.headers["etag"]
    other = "00" if bucket != "00" else "01"
    assert client(store).get("/map", params={"bucket": other}).json()["kernels"] == []
    for wrong in ({}, {"bucket": "0"}, {"bucket": "zz"}, {"bucket": bucket, "dims": "1"}):
        assert client(store).get("/map", params=wrong).status_code == 400


def test_keys_of_an_older_version_get_their_bucket(url: str) -> None:
    store = Store(url)
    fill(store, devices=5)
    bucket = bucket_of(PLACE.kind, PLACE.dims, PLACE.dtype, PLACE.layout)
    with store.engine.begin() as connection:  # as an older server leaves it that runs on
        connection.execute(sa.text("UPDATE places SET bucket = ''"))
    assert len(store.bucket(bucket)) == 5
    assert store.bucket("00" if bucket != "00" else "01") == []
    with store.engine.begin() as connection:  # as it was before the step
        connection.execute(sa.text("DROP INDEX ix_places_bucket"))
        connection.execute(sa.text("ALTER TABLE places DROP COLUMN bucket"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0001'"))
    store.close()
    again = Store(url)
    with again.engine.connect() as connection:
        assert connection.execute(sa.text("SELECT bucket FROM places")).scalar_one() == bucket
    again.close()


@pytest.mark.parametrize(
    "changed", [{}, {"version": "x"}, {"device": "../etc"}, {"threads": "0"}, {"more": "1"}]
)
def test_a_question_is_whole(store: Store, changed: dict[str, str]) -> None:
    asked = {**ASKED, **changed} if changed else {}
    answer = client(store).get("/kernels", params=asked)
    assert answer.status_code == 400 and answer.json()["error"].endswith(".")


def test_sources_devices_and_the_whole_server_have_limits(store: Store) -> None:
    slow = client(store, rate=0.001, burst=2)
    sent = [slow.post("/reports", content=b"{}") for _ in range(3)]
    assert [r.status_code for r in sent] == [400, 400, 429] and sent[2].headers["retry-after"]
    busy = client(store, at_once=0).post("/reports", content=b"{}")
    assert busy.status_code == 503 and busy.headers["retry-after"]
    for number in range(1, MOST_A_DAY + 1):
        assert accept(store, read_signed(sign(report(number), key_of(1))), "s", NOW)
    over = read_signed(sign(report(MOST_A_DAY + 1), key_of(1)))
    with pytest.raises(QuotaError):
        accept(store, over, "s", NOW)
    assert accept(store, over, "s", NOW + 86_400)


def test_a_source_gets_its_share_back_in_time() -> None:
    now = [0.0]
    throttle = Throttle(1, 2, clock=lambda: now[0])
    assert [throttle.take("a") for _ in range(3)] == [True, True, False]
    assert throttle.take("b")
    now[0] = 1.0
    assert throttle.take("a") and not throttle.take("a")


def test_addresses_are_not_kept(store: Store) -> None:
    fill(store)
    with store.engine.connect() as connection:
        names = [t.name for t in metadata.sorted_tables]
        kept = str([connection.execute(sa.text(f"SELECT * FROM {n}")).all() for n in names])
    assert "10.0." not in kept and "192.0.2" not in kept
    assert store.source("10.0.1.1") == store.source("10.0.1.9") != store.source("10.0.2.1")
    assert store.source("2001:db8:1::1") == store.source("2001:db8:1:ff::2")


def test_the_admin_page_needs_its_token(store: Store) -> None:
    fill(store)
    web = client(store)
    assert web.get("/admin").status_code == 401
    wrong = base64.b64encode(b"admin:open").decode()
    assert web.get("/admin", headers={"Authorization": f"Basic {wrong}"}).status_code == 401
    right = base64.b64encode(b"admin:open sesame").decode()
    page = web.get("/admin", headers={"Authorization": f"Basic {right}"})
    assert page.status_code == 200 and GOOD in page.text and "2.00x" in page.text
    assert "script" not in page.text and "default-src 'none'" in str(page.headers)
    assert "--tuned" in web.get("/admin.css").text
    assert client(store, admin_token="").get("/admin").status_code == 404


def test_health_metrics_and_the_description(store: Store) -> None:
    fill(store, 1)
    web = client(store)
    web.post("/reports", content=b"{}")
    assert web.get("/health").json() == {"ok": True, "ballots": 1}
    assert 'nnjit_reports_total{outcome="refused"} 1.0' in web.get("/metrics").text
    told = web.get("/openapi.json").json()
    assert told["openapi"] == "3.1.0" and set(told["paths"]) == {
        "/reports", "/kernels", "/map", "/snapshots/{digest}.json", "/health", "/metrics",
    }  # fmt: skip
    assert "SignedReport" in told["components"]["schemas"]


def test_old_ballots_are_forgotten(store: Store) -> None:
    fill(store, 2)
    assert store.prune(NOW) == 0 and store.prune(NOW + 1) == 2
    assert store.counts() == {"devices": 0, "places": 0, "ballots": 0, "snapshots": 0}


def test_the_commons_travel_as_one_file(store: Store, tmp_path: Path) -> None:
    fill(store)
    rare = report(findings=(finding(replace(PLACE, dims="7x7x7")),))
    accept(store, read_signed(sign(rare, key_of(50))), "s", NOW)
    file = tmp_path / "commons.jsonl"
    assert export_commons(store, file) == 7
    text = file.read_text()
    assert json.loads(text.splitlines()[0])["licence"] == "CC0-1.0"
    assert "7x7x7" not in text, "a rare shape stays here"
    other = Store(f"sqlite:///{tmp_path / 'other.db'}")
    assert import_commons(other, file, NOW) == import_commons(other, file, NOW) == 7
    told = client(other).get("/kernels", params=ASKED).json()["kernels"][0]
    assert told["belief"]["best"][0]["settings"] == GOOD
    file.write_text(text + '{"place": 1}\n')
    with pytest.raises(CommonsError, match="Line 9"):
        import_commons(other, file, NOW)
    other.close()


def test_a_url_that_names_no_database() -> None:
    for wrong in ("nonsense", "sqlite:////no/such/folder/x.db"):
        with pytest.raises(CommonsError, match="cannot be opened"):
            Store(wrong)
