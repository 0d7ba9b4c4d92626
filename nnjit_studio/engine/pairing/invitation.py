"""The code by which one device joins: in the QR code's address, or six digits to type."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable

from nnjit_studio.errors import UserError

CODE_S = 120.0
TRIES = 5
"""Wrong ones, of secret and digits together; then nobody joins by this code any more."""
NEW_ONE = "Ask for a new code in the Studio."


class Invitation:
    """A code that works once, for two minutes, and not after five wrong tries.

    The digits alone are weak, so that they live by the lock: whoever guesses wins 5 times in a
    million codes, and each of those is asked for by the person at the Studio.

    Attributes
    ----------
    secret
        256 random bits, for the address.
    digits
        Six, for a person to type.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.secret = secrets.token_urlsafe(32)
        self.digits = f"{secrets.randbelow(10**6):06d}"
        self._now_s, self._until_s = now_s, now_s() + CODE_S
        self._left, self._used = TRIES, False
        self._lock = threading.Lock()

    @property
    def seconds_left(self) -> float:
        """Until the code dies; 0 where it is used or locked."""
        dead = self._used or not self._left
        return 0.0 if dead else max(0.0, self._until_s - self._now_s())

    @property
    def state(self) -> str:
        """``open``, ``used``, ``locked`` or ``expired``."""
        if self._used:
            return "used"
        if not self._left:
            return "locked"
        return "open" if self.seconds_left else "expired"

    def take(self, given: str) -> None:
        """Use the code up.

        Raises
        ------
        UserError
            When it is wrong, used, locked or too old.
        """
        with self._lock:
            match self.state:
                case "used":
                    raise UserError("The code was used already.", NEW_ONE)
                case "locked":
                    raise UserError(f"The code is locked after {TRIES} wrong tries.", NEW_ONE)
                case "expired":
                    raise UserError(f"The code is older than {CODE_S:.0f} s.", NEW_ONE)
            # Both are compared, so that the time tells nothing of which one was meant.
            right = [
                secrets.compare_digest(given.encode(), known.encode())
                for known in (self.secret, self.digits)
            ]
            if any(right):
                self._used = True
                return
            self._left -= 1
            left = f"{self._left} tries are left." if self._left else NEW_ONE
            raise UserError("This is not the code that the Studio shows.", left)
