"""Recorded files: compared by default, rewritten by ``pytest --bless``."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import loaded
import pytest

import nnjit_studio  # noqa: F401  (switches ONNX Runtime's telemetry off before a test loads it)
from nnjit_studio.compiler.process import child
from nnjit_studio.engine.gpu_bridge import bridge
from nnjit_studio.foreign_wasm import apart
from nnjit_studio.support.garbage import look_seldom

look_seldom()

SPAWNED, GPU_SPAWNED = child.spawned, bridge.spawned
GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite recorded files")


def pytest_configure(config: pytest.Config) -> None:
    """The workers of a run have one process from which theirs are forked."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        os.environ[loaded.ADDRESS] = loaded.served() if loaded.CAN_FORK else ""


def pytest_collection_finish() -> None:
    """What is loaded stays: a search for garbage need not go through it again and again."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def forked_processes() -> Iterator[None]:
    """Where the start of a process for compiling or for a GPU is not what is tested."""
    with pytest.MonkeyPatch.context() as patch:
        if loaded.CAN_FORK:
            patch.setattr(child, "spawned", loaded.compile_process)
            patch.setattr(bridge, "spawned", loaded.gpu_process)
        yield


@pytest.fixture(scope="module")
def read_here() -> Iterator[None]:
    """Wasm files are read in this process: its limits and its end are tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apart, "spread", lambda work, jobs, seconds: map(work, jobs))
        yield


@pytest.fixture(scope="module")
def fresh_compile_processes() -> Iterator[None]:
    """Compile processes as users have them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child, "spawned", SPAWNED)
        yield


@pytest.fixture
def fresh_gpu_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of the GPU as users have them."""
    monkeypatch.setattr(bridge, "spawned", GPU_SPAWNED)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)`` compares with, or writes, ``tests/golden/name``."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("bless"):
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.exists(), f"{name} is missing: run pytest --bless"
        assert text == path.read_text(encoding="utf-8")

    return check
