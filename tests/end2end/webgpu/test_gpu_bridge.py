"""The bridge to wgpu-native on a software adapter: what a page gets, and what it cannot break."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpu_journey
import numpy as np
import pytest
import tiny
from nnjit_command import LONG_S
from waiting import PATIENCE_S, until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from nnjit_studio.engine.browsers.browsers import find, is_root
from nnjit_studio.engine.gpu_bridge import bridge as gpu_bridge
from nnjit_studio.engine.gpu_bridge.bridge import GpuProcess, list_adapters
from nnjit_studio.engine.gpu_bridge.wire import COPY, CREATE, DESTROY, DISPATCH, STAMP, WRITE
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.frames import Frame, decode_frame, encode_frame
from nnjit_studio.engine.runner.kept_page import keep_page
from nnjit_studio.support.programs import find_program

pytest.importorskip("wgpu", reason="wgpu needs Python 3.11")

ADD_ONE = """@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> b: array<u32>;
@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3u) {
  b[id.x] = a[id.x] + 1u;
}"""
READ, READ_WRITE = "read", "read_write"
A, B = 1, 2
NBYTES = 1024


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def create(buffer: int, nbytes: int = NBYTES) -> bytes:
    return words(CREATE, buffer, nbytes % 2**32, nbytes >> 32)


def dispatch(pipeline: int, groups: int, *buffers: int) -> bytes:
    bound = [n for buffer in buffers for n in (buffer, 0, 0, NBYTES, 0)]
    return words(DISPATCH, pipeline, groups, 1, 1, len(buffers), *bound)


class Page:
    """What a page's bridge.js says, word by word."""

    def __init__(self, hub: Hub) -> None:
        address = hub.url.replace("http", "ws").replace("/?", "/gpu?")
        self.socket = connect(
            address,
            origin=hub.origin,  # type: ignore[arg-type]
            compression=None,
            max_size=None,
            legacy=True,
        )
        self._ids = 0
        self.facts: dict[str, Any] = {}

    def tell(self, header: dict[str, Any], *blobs: bytes) -> None:
        self.socket.send(encode_frame(header, blobs))

    def hear(self) -> Frame:
        data = self.socket.recv(timeout=PATIENCE_S)
        assert isinstance(data, bytes)
        return decode_frame(data)

    def ask(self, kind: str, *blobs: bytes, **fields: Any) -> Frame:
        self._ids += 1
        self.tell({"type": kind, "id": self._ids, **fields}, *blobs)
        header, parts = self.hear()
        assert header["type"] == "ended" or header["id"] == self._ids
        return header, parts

    def run(self, commands: bytes, *blobs: bytes) -> None:
        self.tell({"type": "run"}, commands, *blobs)

    def open(self) -> dict[str, Any]:
        header, _ = self.ask("open")
        assert header["type"] == "opened", header
        return header

    def compile(self, number: int, code: str = ADD_ONE, *access: str) -> dict[str, Any]:
        access = access or (READ, READ_WRITE)
        return self.ask(
            "compile", code.encode(), pipeline=number, entry="main", access=list(access)
        )[0]

    def read(self, buffer: int, count: int, offset: int = 0) -> tuple[int, ...]:
        header, blobs = self.ask("read", buffer=buffer, offset=offset, nbytes=4 * count)
        assert header["type"] == "bytes", header
        return struct.unpack(f"<{count}I", blobs[0])

    def two_buffers(self) -> None:
        self.run(create(A) + create(B) + words(WRITE, A, 0, 0, 0), words(10, 20, 30))

    def buffers_anew(self) -> None:
        self.run(words(DESTROY, A) + words(DESTROY, B))
        self.two_buffers()


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        hub.gpu.adapter = "software"
        yield hub


@pytest.fixture
def page(hub: Hub) -> Iterator[Page]:
    page = Page(hub)
    yield page
    page.socket.close()


@pytest.fixture(scope="module")
def shared(hub: Hub) -> Iterator[Page]:
    """A page with a device, one pipeline and two buffers: each of its own would take a process."""
    page = Page(hub)
    page.facts = page.open()
    assert page.compile(1)["ms"] > 0
    page.two_buffers()
    yield page
    page.socket.close()


@pytest.fixture
def shared_page(shared: Page) -> Page:
    """It, with what its buffers held at first."""
    shared.buffers_anew()
    return shared


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[GpuProcess]:
    """All that are started from here on."""
    started: list[GpuProcess] = []

    class Seen(GpuProcess):
        def __init__(self, adapter: str) -> None:
            super().__init__(adapter)
            started.append(self)

    monkeypatch.setattr(gpu_bridge, "GpuProcess", Seen)
    return started


def test_what_is_here_is_named_and_software_is_told() -> None:
    adapters = list_adapters()
    software = [a for a in adapters if a["is_fallback"]]
    assert software, "no software adapter: see .ci/system.sh vulkan"
    assert all(a["software"] for a in software)
    assert all(a["description"] and a["backend"] for a in adapters)


def test_dispatches_see_the_writes_before_them(shared_page: Page) -> None:
    page = shared_page
    assert page.facts["is_fallback"] is True
    assert page.facts["limits"]["maxBufferSize"] >= 2**27
    page.run(dispatch(1, 3, A, B) + dispatch(1, 3, B, A) + dispatch(1, 3, A, B))
    assert page.read(B, 3) == (13, 23, 33)
    assert page.read(A, 2, offset=4) == (22, 32)
    # a host write between two dispatches of one batch
    page.run(dispatch(1, 1, A, B) + words(WRITE, A, 0, 0, 0) + dispatch(1, 1, A, B), words(40))
    assert page.read(B, 2) == (41, 23)


def test_copies_and_destroyed_buffers_keep_their_place(shared_page: Page) -> None:
    page = shared_page
    page.run(
        dispatch(1, 3, A, B)
        + create(3)
        + words(COPY, B, 0, 0, 3, 8, 0, 12, 0)
        + words(DESTROY, B)
        + create(B)
    )
    assert page.read(3, 5) == (0, 0, 11, 21, 31)
    assert page.read(B, 3) == (0, 0, 0)  # a new one, zeroed, under the same number
    page.run(words(DESTROY, 3))


def test_equal_bindings_are_one_bind_group_until_a_buffer_goes(page: Page) -> None:
    page.open()
    page.compile(1)
    page.compile(2, ADD_ONE.replace("1u", "2u"))
    page.two_buffers()
    page.run(dispatch(1, 1, A, B) * 50 + dispatch(2, 1, A, B))
    counters = page.ask("done")[0]["counters"]
    assert (counters["bind_groups_made"], counters["bind_groups_hit"]) == (1, 50)
    assert counters["passes"] == 1
    page.run(words(DESTROY, B) + create(B) + dispatch(1, 1, A, B))
    assert page.ask("done")[0]["counters"]["bind_groups_made"] == 2
    assert page.read(B, 1) == (11,)


def test_timestamps_rise(shared_page: Page) -> None:
    page = shared_page
    assert page.facts["timestamp_quantum_ns"] > 0
    page.run(words(STAMP, 0) + dispatch(1, 3, A, B) * 200 + words(STAMP, 1))
    header, blobs = page.ask("stamps", count=2)
    assert header["type"] == "stamps"
    first, second = struct.unpack("<2q", blobs[0])
    assert second > first
    header, _ = page.ask("stamps", count=3)
    assert header["error"] == "The first 3 timestamps were not all taken."


def test_a_kernel_that_does_not_compile_says_where(shared_page: Page) -> None:
    page = shared_page
    answer = page.compile(2, ADD_ONE.replace("+ 1u", "+ bogus"))
    assert (answer["type"], answer["code"]) == ("error", "gpu-kernel")
    assert "bogus" in answer["error"]
    assert "(line 4)" in answer["error"]
    assert page.compile(2)["type"] == "compiled"  # the number is free again
    missing = page.compile(3, ADD_ONE.replace("fn main", "fn other"))
    assert missing["code"] == "gpu-kernel"
    assert page.compile(4, "\0")["code"] == "gpu-kernel"
    assert page.compile(5, "")["code"] == "gpu-kernel"


def test_subgroups_work_with_the_directive_of_the_standard(shared_page: Page) -> None:
    page = shared_page
    if "subgroups" not in page.facts["features"]:
        pytest.skip("this adapter has no subgroups")
    code = "enable subgroups;\n" + ADD_ONE.replace("+ 1u", "+ subgroupBroadcastFirst(1u)")
    assert page.compile(6, code)["type"] == "compiled"
    page.run(dispatch(6, 3, A, B))
    assert page.read(B, 3) == (11, 21, 31)


@pytest.mark.parametrize(
    ("commands", "error", "code"),
    [
        (dispatch(9, 1, A, B), "There is no pipeline 9.", ""),
        (dispatch(1, 1, A, 77), "There is no buffer 77.", ""),
        (dispatch(1, 1, A), "1 bindings do not fit", ""),
        (dispatch(1, 1, A, A), "conflicting usages", "gpu-kernel"),
        (dispatch(1, 2**20, A, B), "workgroups are over", ""),
        (words(DISPATCH, 1, 1, 1, 1, 2, A, 0, 0, 2048, 0, B, 0, 0, 4, 0), "do not lie in", ""),
        (words(DISPATCH, 1, 1, 1, 1, 2, A, 4, 0, 8, 0, B, 0, 0, 8, 0), "4", "gpu-kernel"),
        (words(WRITE, A, NBYTES, 0, 0), "do not lie in buffer 1", ""),
        (words(WRITE, A, 0, 0, 5), "no blob 5", ""),
        (words(COPY, A, 0, 0, A, 0, 0, 4, 0), "two buffers", ""),
        (words(COPY, A, 2, 0, B, 0, 0, 4, 0), "do not lie in", ""),
        (words(STAMP, 2**31), "no timestamp slot", ""),
        (words(DESTROY, 5), "There is no buffer 5.", ""),
        (create(A), "is there already", ""),
        (create(3, 6), "cannot have 6 bytes", "gpu-memory"),
        (create(3, 2**40), "cannot have", "gpu-memory"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_told_once_and_the_device_lives_on(
    shared_page: Page, commands: bytes, error: str, code: str
) -> None:
    shared_page.run(commands + dispatch(1, 1, A, B), words(10))
    header, _ = shared_page.ask("done")
    assert header["type"] == "error"
    assert error in header["error"]
    assert header["code"] == code
    shared_page.run(dispatch(1, 3, A, B))
    assert shared_page.read(B, 3) == (11, 21, 31)


def test_an_error_in_a_readback_is_that_requests_alone(shared_page: Page) -> None:
    header, _ = shared_page.ask("read", buffer=55, offset=0, nbytes=4)
    assert header["error"] == "There is no buffer 55."
    assert shared_page.read(A, 1) == (10,)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"\x00\x00", "malformed"),
        (encode_frame({"type": "bogus", "id": 1}), "no GPU request 'bogus'"),
        (encode_frame({"type": "open"}), "no id"),
        (encode_frame({"type": "done", "id": 1}), "No GPU device is open"),
        (encode_frame({"type": "run"}), "no commands"),
        ("text", "text, not binary"),
    ],
)
def test_a_stranger_is_sent_away_in_one_sentence(page: Page, frame: Any, why: str) -> None:
    page.socket.send(frame)
    header, _ = page.hear()
    assert header["type"] == "ended"
    assert why in header["reason"]
    with pytest.raises(ConnectionClosed):
        while True:
            page.hear()


@pytest.mark.usefixtures("fresh_gpu_processes")
def test_a_killed_process_is_told_and_the_next_page_gets_a_new_one(
    hub: Hub, processes: list[GpuProcess], page: Page
) -> None:
    page.open()
    os.kill(processes[0].pid, signal.SIGKILL)
    header, _ = page.hear()
    assert header["type"] == "ended"
    assert f"ended with code -{int(signal.SIGKILL)}" in header["reason"]
    again = Page(hub)
    again.open()
    again.compile(1)
    again.two_buffers()
    again.run(dispatch(1, 3, A, B))
    assert again.read(B, 3) == (11, 21, 31)
    again.socket.close()


@pytest.mark.usefixtures("fresh_gpu_processes")
def test_a_forced_loss_is_told(page: Page) -> None:
    page.open()
    page.tell({"type": "lose"})
    header, _ = page.hear()
    assert header["type"] == "ended"
    assert "ended with code 1" in header["reason"]


@pytest.mark.usefixtures("fresh_gpu_processes")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_the_process_goes_with_its_page(hub: Hub, processes: list[GpuProcess], page: Page) -> None:
    page.open()
    (process,) = processes
    assert process._process.is_alive()
    pid = process.pid
    page.socket.close()
    until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.usefixtures("fresh_gpu_processes")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_the_process_goes_with_its_hub(processes: list[GpuProcess]) -> None:
    with Hub() as hub:
        hub.gpu.adapter = "software"
        page = Page(hub)
        page.open()
        (process,) = processes
        pid = process.pid
        assert Path(f"/proc/{pid}").exists()
    until(lambda: not Path(f"/proc/{pid}").exists())
    page.socket.close()


def test_too_many_at_once_are_refused(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_bridge, "MAX_PROCESSES", 0)
    page = Page(hub)
    header, _ = page.hear()
    assert header["reason"] == "0 GPU processes run already."
    page.socket.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_killed_studio_leaves_no_process() -> None:
    program = (
        "import time; from nnjit_studio.engine.gpu_bridge.bridge import GpuProcess\n"
        "if __name__ == '__main__':\n"
        "    process = GpuProcess('software')  # its socket must stay open\n"
        "    print(process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as studio:
        try:
            assert studio.stdout is not None
            pid = int(studio.stdout.readline())
            chatter = Path(f"/proc/{pid}/fd/2")
            until(lambda: "gpu-" in os.readlink(chatter))
            log = Path(os.readlink(chatter))
            assert log.exists()
        finally:
            studio.kill()

    def gone() -> bool:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        return True

    until(gone)
    assert not log.exists()


def test_the_page_s_layer_over_the_bridge(hub: Hub) -> None:
    node = find_program("node")
    assert node is not None
    scenario = Path(__file__).with_name("gpu_bridge_scenario.mjs")
    address = hub.url.replace("http", "ws").replace("/?", "/gpu?")
    run = subprocess.run(
        [node, scenario, address, hub.origin], capture_output=True, text=True, timeout=LONG_S
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_without_software_the_hub_opens_no_software() -> None:
    if any(not a["is_fallback"] for a in list_adapters()):
        pytest.skip("this machine has a GPU")
    with Hub() as hub:
        page = Page(hub)
        header, _ = page.ask("open")
        assert (header["type"], header["code"]) == ("error", "gpu-unavailable")
        assert "which is software" in header["error"]
        assert "--gpu software" in header["hint"]
        page.socket.close()


@pytest.mark.chromium
def test_a_page_whose_gpu_processes_are_all_killed_goes_on(
    processes: list[GpuProcess], tmp_path: Path
) -> None:
    """Of the engine and of what measures at once, again and again."""
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    with Hub() as hub, keep_page(hub, find("chromium"), is_root()):
        hub.gpu.adapter = "software"
        hub.wait_for_page(PATIENCE_S)
        runner = gpu_journey.runner_on(hub, "chromium", "bridge")
        weight = gpu_journey.load(runner, tmp_path)
        runner.register([gpu_journey.kernel()])
        runner.set_fixture(tiny.fixture())
        for losses in range(1, 3):
            for process in list(processes):
                with contextlib.suppress(ProcessLookupError, ValueError):
                    os.kill(process.pid, signal.SIGKILL)
            while runner.losses < losses:
                result = runner.infer({"x": gpu_journey.X})
            runner.set_fixture(tiny.fixture())
            measured = runner.measure(gpu_journey.kernel(), None, gpu_journey.POLICY)
            assert measured.error == ""
            assert measured.error_ratio <= 1
            np.testing.assert_array_equal(result.outputs["y"], gpu_journey.X + weight)
        assert runner.gone is None
