"""What the server tells: one document per kind of device, with every kernel that is believed.

A device asks for its kind and gets all kernels, so that a question betrays no shape.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from nnjit_studio.commons.report.document import HOME, Place
from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.rule.belief import FEWEST, Belief, two_levels
from nnjit_studio.commons.server.store import Store

_Asked = TypeVar("_Asked", bound=Hashable)

FRESH_S = 60
"""Seconds that an answer stays before the rule is applied again."""
_MOST_ANSWERS = 4096
_MOST_OF_A_SOURCE = 20
"""Ballots of one source that the rule looks at; they have one voice together anyway."""


@dataclass(frozen=True)
class KernelAnswer:
    """Believed settings of one kernel."""

    kind: str
    dims: str
    dtype: str
    layout: str
    belief: Belief


@dataclass(frozen=True)
class Answer:
    """A published document and the digest that it is kept under."""

    document: bytes
    digest: str


def kernels_of(home: Place, voices: list[tuple[Place, Ballot]]) -> list[KernelAnswer]:
    """Apply the rule to every kernel of a family, as one kind of device sees it."""
    family: dict[tuple[str, str, str, str], list[Ballot]] = defaultdict(list)
    exact: dict[tuple[str, str, str, str], list[Ballot]] = defaultdict(list)
    for place, ballot in heard_of(voices, home):
        family[place.workload].append(ballot)
        if (place.device, place.version) == (home.device, home.version):
            exact[place.workload].append(ballot)
    answers = []
    for asked, ballots in sorted(family.items()):
        belief = two_levels(exact[asked], ballots)
        if belief is not None and belief.best and belief.sources >= FEWEST:
            answers.append(KernelAnswer(*asked, belief))
    return answers


def heard_of(
    voices: Iterable[tuple[Place, Ballot]], home: Place | None = None
) -> Iterator[tuple[Place, Ballot]]:
    """So many ballots of each source on a kernel, those of this kind of device for themselves;
    without ``home`` on each kind of hardware and engine."""
    heard: dict[tuple[object, ...], int] = defaultdict(int)
    for place, ballot in voices:
        same: object = (place.family, place.engine, place.tier, place.threads)
        if home is not None:
            same = (place.device, place.version) == (home.device, home.version)
        key = (place.workload, ballot.source, same)
        heard[key] += 1
        if heard[key] <= _MOST_OF_A_SOURCE:
            yield place, ballot


class Answers(Generic[_Asked]):
    """Answers in memory, made anew when they are no longer fresh; safe between threads.

    Parameters
    ----------
    made
        Applies the rule for what is asked, and publishes what it says where that is kept.
    """

    def __init__(self, made: Callable[[_Asked], Answer]) -> None:
        self._made = made
        self._held: OrderedDict[_Asked, tuple[float, Answer]] = OrderedDict()
        self._lock = threading.Lock()

    def held(self, asked: _Asked) -> Answer | None:
        """An answer that is fresh, without any work."""
        with self._lock:
            found = self._held.get(asked)
        return found[1] if found and time.monotonic() - found[0] < FRESH_S else None

    def make(self, asked: _Asked) -> Answer:
        """A new answer, which is held from now on."""
        answer = self._made(asked)
        with self._lock:
            self._held[asked] = time.monotonic(), answer
            self._held.move_to_end(asked)
            while len(self._held) > _MOST_ANSWERS:
                self._held.popitem(last=False)
        return answer


def of_home(store: Store, home: Place) -> Answer:
    """Every believed kernel of one kind of device, published."""
    asked = {n: getattr(home, n) for n in HOME}
    answer = render(device=asked, kernels=kernels_of(home, store.voices(home)))
    store.publish(answer.digest, answer.document.decode(), int(time.time()))
    return answer


def render(**contents: object) -> Answer:
    """The document, in one spelling."""
    document = msgspec.json.encode({"format": 1, **contents})
    return Answer(document, hashlib.sha256(document).hexdigest())
