"""Golden files: compared by default, rewritten by ``pytest tests/compiler --bless``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the golden files")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)`` compares with, or writes, ``tests/golden/name``."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        # A run from the root loads this file after the options were read, so it may be missing.
        if request.config.getoption("bless", default=False):
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.exists(), f"{name} is missing: run pytest tests/compiler --bless"
        assert text == path.read_text(encoding="utf-8")

    return check
