"""Which sizes the check of a bundle's numbers looks at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nnjit_studio.compiler.any_size.checked import checked
from nnjit_studio.model.size import Dim


def test_sizes_besides_are_looked_at_where_they_are_in_range() -> None:
    """What the probe found far off may lie outside of a range that a constant narrowed (a window
    of silero-vad): the export ended there."""
    seen: list[dict[str, int]] = []
    dim = Dim("n", 576, 703)
    plan = SimpleNamespace(example={"n": 576}, dims=(dim,), buffers=(), kernels={})
    model: Any = SimpleNamespace(plan=plan, check=lambda at, *_: seen.extend(at))
    checked(model, [{"n": 208}, {"n": 640}])
    assert {"n": 640} in seen and all(dim.takes(at["n"]) for at in seen)
