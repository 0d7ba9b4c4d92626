"""The house in threads of its own: the port opens and closes, a device works."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from nnjit_studio.engine.pairing.door import DoorOptions
from nnjit_studio.engine.pairing.known import PairedDevice
from nnjit_studio.tuner.events import Failed, Finished
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.widgets.worker import Worker
from nnjit_studio.workbench.house import House, Work

OPEN, CLOSE, TUNE = "open the port", "close the port", "tune on a device"


class Port(QObject):
    """One job after the other on the port, and one on a device."""

    changed = Signal()
    """The port, or the work on a device, is another now."""
    told = Signal(str)
    """A sentence about work that ended."""
    problem = Signal(object)
    """``JobProblem``: Something was not done."""

    def __init__(self, house: House, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.house = house
        self.wanted = False
        """Whether the port is to be open."""
        self.device: PairedDevice | None = None
        """The one that works."""
        self._gone = False
        self._port, self._work = Worker(self), Worker(self)
        self._port.returned.connect(lambda *_: self._settle())
        self._port.failed.connect(self._refused)
        self._work.yielded.connect(self._heard)
        self._work.returned.connect(lambda *_: self._rest())
        self._work.failed.connect(self._failed)

    @property
    def open(self) -> bool:
        """Whether devices can come now."""
        return self.house.door is not None and self.house.door.open

    @property
    def busy(self) -> bool:
        """Whether the port is about to open or close."""
        return bool(self._port.job)

    @property
    def job(self) -> str:
        """For a window that closes: what has not ended yet, the open port too."""
        still_open = CLOSE if self.house.door is not None else ""
        return self._work.job or self._port.job or still_open

    def cancel(self) -> None:
        """End the work and close the port, for good."""
        self._gone = True
        self.close()

    def listen(self, options: DoorOptions) -> None:
        """Open the port."""
        self.wanted = True
        self._port.start(OPEN, lambda emit: self.house.listen(options) and None)
        self.changed.emit()

    def close(self) -> None:
        """Close the port and end the work on a device."""
        self.wanted = False
        self.house.stop()
        if self.house.door is not None:
            self._port.start(CLOSE, lambda emit: self.house.close())
        self.changed.emit()

    def tune(self, device: PairedDevice, work: Work) -> None:
        """Tune on a device."""
        self.device = device
        self._work.start(TUNE, lambda emit: self.house.tune(device, work))
        self.changed.emit()

    def _settle(self) -> None:
        """Do what was wanted while the port opened or closed."""
        if self._gone and self.house.door is not None:
            self.close()
        self.changed.emit()

    def _refused(self, job: str, error: BaseException) -> None:
        self.wanted = False
        self.problem.emit(JobProblem.of(job, error))
        self.changed.emit()

    def _heard(self, events: list[object]) -> None:
        name = self.device.name if self.device else ""
        for event in events:
            if isinstance(event, Finished):
                self.told.emit(f"Tuned on {name}: {event.gain} as fast as with first kernels.")
            elif isinstance(event, Failed):
                self.problem.emit(JobProblem(TUNE, *map(str, event.error.values())))

    def _failed(self, job: str, error: BaseException) -> None:
        if self.wanted:  # else the port was closed under it, by a person
            self.problem.emit(JobProblem.of(job, error))
        self._rest()

    def _rest(self) -> None:
        self.device = None
        self.changed.emit()
