"""Scripts of benchmarks, as modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

_BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def benchmark(name: str) -> ModuleType:
    """A fresh module of the script with this path among the benchmarks, without ``.py``."""
    module_name = f"{name.replace('/', '_')}_bench"
    spec = importlib.util.spec_from_file_location(module_name, _BENCHMARKS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
