"""Commands that a running job stands in the way of: a sentence with a button that makes room."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QObject, Qt

from nnjit_studio.ui.commands.actions import NEED_IDLE, ActionSpec, plain
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import BESIDE, EXAMINE, running

FILES = "&File"
"""What the commands of this menu do is not measured."""
AFTER_EXAMINE = ("open", "sample")
"""What waits for the end of the examination by itself."""


class InTheWay(QObject):
    """No key is dead while a job runs: the bar says what runs, and pauses or stops it."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._host = host
        self._said = ""
        host.session.busy_changed.connect(lambda _: host.message.withdraw(self._said))
        host.calm.connect(lambda: host.message.withdraw(self._said))

    def guarded(
        self, specs: Sequence[ActionSpec], handlers: Mapping[str, Callable[[], object]]
    ) -> dict[str, Callable[[], object]]:
        """The handlers, those that need an idle session with an offer in front of them."""
        idle = {s.id: s for s in specs if s.needs in NEED_IDLE}
        return {
            name: self._guard(idle[name], act) if name in idle else act
            for name, act in handlers.items()
        }

    def offer(self, what: str, then: Callable[[], object]) -> None:
        """Say that a job is in the way of ``what``, with a button that ends it and goes on."""
        job = self._host.session.busy
        verb = "Pause" if job == "tune" else "Stop"
        self._say(f"{running(job)}.", verb, what, lambda: self._make_room(then))

    def _offer_beside(self, what: str, then: Callable[[], object]) -> None:
        """The same for what is measured beside the session: both would disturb each other."""
        self._say(BESIDE, "Stop", what, lambda: self._end_beside(then))

    def _say(self, words: str, verb: str, what: str, step: Callable[[], object]) -> None:
        self._said = words
        button = f"{verb} and {what[:1].lower()}{what[1:]}"
        self._host.message.say(words, steps=[(button, step)])

    def _end_beside(self, then: Callable[[], object]) -> None:
        beside = self._host.beside
        if beside is None:
            then()
            return
        self._host.calm.connect(lambda: then(), Qt.ConnectionType.SingleShotConnection)
        beside.cancel()

    def _guard(self, spec: ActionSpec, act: Callable[[], object]) -> Callable[[], object]:
        def guarded() -> None:
            job = self._host.session.busy
            if not job and self._host.beside is not None and spec.menu != FILES:
                self._offer_beside(plain(spec.text), act)
            elif not job or (job == EXAMINE and spec.id in AFTER_EXAMINE):
                act()
            else:
                self.offer(plain(spec.text), act)

        return guarded

    def _make_room(self, then: Callable[[], object]) -> None:
        session = self._host.session
        if not session.busy:
            then()
            return
        session.when_idle(then)
        if session.busy == "tune":
            session.pause()
        else:
            session.cancel()
