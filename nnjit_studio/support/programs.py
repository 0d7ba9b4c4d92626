"""Programs that come with the Python packages of this environment."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def find_program(name: str) -> Path | None:
    """The program next to this Python, else on PATH; a path stays as it is."""
    own = Path(sys.executable).with_name(name)
    found = str(own) if own.is_file() and Path(name).name == name else shutil.which(name)
    return Path(found) if found is not None else None
