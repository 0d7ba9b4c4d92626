"""A second browser with another address joins by the code, tunes, is seen at it, and leaves."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import phone
import pytest
from networks import Network, network, why_not
from onnx import helper
from onnx_models import save
from waiting import until

from nnjit_studio.database import KernelDatabase
from nnjit_studio.engine.pairing.door import DoorOptions
from nnjit_studio.model import ImportOptions
from nnjit_studio.tuner.events import Finished, RoundDone
from nnjit_studio.workbench.house import House, Work

pytestmark = pytest.mark.chromium
MOST_S = 300.0
"""More than a busy machine needs; the test ends the work once a round is done."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, for Chromium puts a socket below it, whose path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="nnjit-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def product(path: Path) -> Path:
    """One product of 32x64x64."""
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    weights = {"w": np.eye(64, dtype="f4")}
    return save(path, [product], {"x": [32, 64]}, {"y": [32, 64]}, weights)


def test_a_phone_joins_tunes_and_leaves(folder: Path) -> None:
    if reason := why_not("certutil", "chromium"):
        pytest.skip(reason)
    with network() as own, KernelDatabase.open(folder / "k.db") as database:
        if own is None:
            pytest.skip("no network can be made here")
        house = House(database)
        door = house.listen(DoorOptions(own.here, 0))
        try:
            with phone.phone(own, folder, door.authority) as played:
                drive(house, played, own, product(folder / "m.onnx"))
            port = urlsplit(door.address).port
        finally:
            house.close()
        with socket.socket() as probe:
            assert probe.connect_ex((own.here, port)) != 0, "closed with the panel"
        (target,) = {record.key.target for record in database.all_records(limit=1000)}
        assert target == "device"


def drive(house: House, played: phone.Phone, own: Network, model: Path) -> None:
    """All that a person does with it."""
    door = house.door
    assert door is not None
    played.open(door.url)
    played.wait("document.readyState === 'complete' && !!document.getElementById('join')")
    assert played.ask("isSecureContext") is True, "the certificate is right"
    assert played.ask("[innerWidth <= 500, location.hash]") == [True, ""], "no secret stays"
    assert played.ask("fetch('/studio/page.js').then(a => a.status)") == 404
    played.ask("document.getElementById('join').click()")
    until(lambda: [guest.row.works for guest in house.rows()] == [True])
    until(lambda: house.rows()[0].row.state.cores is not None)
    (guest,) = house.rows()
    assert (guest.device.name, guest.row.address) == ("Chromium on Android", own.there)
    house.limit(guest.device, MOST_S)
    events, shown = [], []
    for event in house.tune(house.rows()[0].device, Work(model, ImportOptions())):
        events.append(event)
        if isinstance(event, RoundDone):
            shown.append(house.rows()[0])
            house.stop()
    assert isinstance(events[-1], Finished) and shown
    assert {row.now for row in shown} == {"tuning"}
    assert shown[-1].told is not None and shown[-1].told.gflops > 0
    played.wait("document.getElementById('left').textContent === 'done'")
    assert played.ask("document.getElementById('gflops').textContent > 0")
    assert played.ask("document.getElementById('model').textContent") == "m"
    played.ask("document.getElementById('leave').click()")
    until(lambda: house.rows() == [])
