"""Changes that can be undone, of records and of the window, in one order."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QObject, Signal

Ended = Callable[[bool], None]
"""Told whether a change was made, at once or when the thread that makes it has ended."""


@dataclass(frozen=True)
class UndoStep:
    """A change; ``done`` names it in the past tense."""

    done: str
    do: Callable[[Ended], object]
    undo: Callable[[Ended], object]
    needs_idle: bool = False
    """Both are jobs, for which no other one may run."""

    @classmethod
    def at_once(cls, done: str, do: Callable[[], object], undo: Callable[[], object]) -> UndoStep:
        """A change that is made at once and cannot fail."""
        return cls(done, partial(_make_at_once, do), partial(_make_at_once, undo))


def _make_at_once(work: Callable[[], object], ended: Ended) -> None:
    work()
    ended(True)


class History(QObject):
    """Steps that were done, and those that were undone and may be done again."""

    changed = Signal()
    """Another step is the next to undo or redo."""
    told = Signal(str, str)
    """What was done, in a sentence, and the tone of the message bar."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.done: list[UndoStep] = []
        self.undone: list[UndoStep] = []

    def do(self, step: UndoStep) -> None:
        """Make a change; what was undone before cannot be redone after it."""
        self.undone.clear()
        self._make(step, step.do, [], self.done, f"{step.done}. Ctrl+Z undoes it.")

    def forget(self, gone: Collection[UndoStep]) -> None:
        """Drop changes of what is not there any more."""
        for steps in (self.done, self.undone):
            steps[:] = [step for step in steps if step not in gone]
        self.changed.emit()

    def undo(self) -> None:
        """Undo the latest change."""
        if not self.done:
            self.told.emit("There is nothing to undo.", "plain")
            return
        step = self.done.pop()
        sentence = f"Undone: {step.done[:1].lower()}{step.done[1:]}."
        self._make(step, step.undo, self.done, self.undone, sentence)

    def redo(self) -> None:
        """Redo the change that was undone last."""
        if not self.undone:
            self.told.emit("There is nothing to redo.", "plain")
            return
        step = self.undone.pop()
        self._make(step, step.do, self.undone, self.done, f"{step.done}. Ctrl+Z undoes it.")

    def _make(
        self,
        step: UndoStep,
        work: Callable[[Ended], object],
        source: list[UndoStep],
        goal: list[UndoStep],
        sentence: str,
    ) -> None:
        def ended(fine: bool) -> None:
            (goal if fine else source).append(step)
            self.changed.emit()
            if fine:
                self.told.emit(sentence, "good")

        self.changed.emit()
        work(ended)
