"""A phone that is played: Chromium in a network namespace with an address of its own.

Its certificates are those of its own home, to which the local authority's is added as a person
would install it. It is driven through a pipe, for nothing else reaches into its network.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from networks import Network
from waiting import until

AGENT = "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/156.0.0.0 Mobile Safari/537.36"


class Phone:
    """A running browser; :meth:`ask` evaluates in its page."""

    def __init__(self, writes: int, reads: io.RawIOBase) -> None:
        self._writes, self._reads = writes, reads
        self._numbers = itertools.count(1)
        self._page, self._buffer = "", b""

    def command(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, to the page once there is one."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._page:
            message["sessionId"] = self._page
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != number:
            pass
        assert "result" in answer, answer
        return answer["result"]

    def open(self, url: str) -> None:
        """Open an address in the page that there is."""
        pages = self.command("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        attached = self.command("Target.attachToTarget", targetId=target, flatten=True)
        self._page = attached["sessionId"]
        self.command("Page.navigate", url=url)

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        given = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        return self.command("Runtime.evaluate", **given)["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until an expression is true."""
        until(lambda: bool(self.ask(expression)))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = self._reads.read(1 << 16)
            assert part, "the phone's browser ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@contextlib.contextmanager
def phone(network: Network, home: Path, authority: bytes) -> Iterator[Phone]:
    """Started with one more trusted authority, in DER; ended with all its processes."""
    store = home / ".pki" / "nssdb"
    store.mkdir(parents=True)
    (home / "authority.der").write_bytes(authority)
    trust = f"certutil -d sql:{store} -A -t C,, -n studio -i {home / 'authority.der'}"
    subprocess.run(["certutil", "-d", f"sql:{store}", "-N", "--empty-password"], check=True)
    subprocess.run(trust.split(), check=True)
    reads, to_phone = os.pipe()
    from_phone, writes = os.pipe()
    command = (
        f"exec 3<&{reads} 4>&{writes}; exec ip netns exec {network.name} chromium "
        f"--headless=new --no-sandbox --no-first-run --disable-dev-shm-usage "
        f"--disable-background-networking "
        f"--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup "
        f"--disable-component-update --no-pings --remote-debugging-pipe --window-size=390,844 "
        f"--user-data-dir={home / 'profile'} --user-agent='{AGENT}' about:blank"
    )
    process = subprocess.Popen(
        ["bash", "-c", command], pass_fds=(reads, writes), start_new_session=True,
        env={**os.environ, "HOME": str(home)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(reads)
    os.close(writes)
    with open(from_phone, "rb", buffering=0) as answers:
        try:
            yield Phone(to_phone, answers)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(to_phone)
