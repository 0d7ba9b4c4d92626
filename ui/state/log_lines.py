"""Lines of the program's log, kept for the window by any thread. Knows no Qt."""

from __future__ import annotations

import collections
import logging
import time
from dataclasses import dataclass

LIMIT = 5000
LOGGERS = ("nnjit_studio", "nnjit")


@dataclass(frozen=True)
class Line:
    """One record of the log; ``level`` is the number of ``logging``."""

    at: float
    level: int
    source: str
    text: str

    def __str__(self) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(self.at))
        millis = int(self.at % 1 * 1000)
        name = logging.getLevelName(self.level).lower()
        return f"{clock}.{millis:03d}  {name:<8} {self.source}: {self.text}"


class LineHandler(logging.Handler):
    """Keeps the newest lines until a view takes them; appending to a deque is thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self.fresh: collections.deque[Line] = collections.deque(maxlen=LIMIT)

    def install(self) -> None:
        """Keep lines of all levels from now on; the view hides those below its own."""
        for name in LOGGERS:
            logging.getLogger(name).addHandler(self)
            logging.getLogger(name).setLevel(logging.DEBUG)

    def remove(self) -> None:
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        source = record.name.removeprefix("nnjit_studio.")
        try:
            text = self.format(record)
        except Exception:  # a wrong log call must not break the thread that made it
            self.handleError(record)
            return
        self.fresh.append(Line(record.created, record.levelno, source, text))
