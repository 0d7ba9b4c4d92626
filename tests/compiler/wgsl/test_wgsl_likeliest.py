"""The engine's own shaders that choose a greedy token, on wgpu-native."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wgsl_harness import run_document

from nnjit_studio.compiler.wgsl.core.document import Dispatch, KernelDocument

MODULE = Path(__file__).parents[3] / "resources/engine/gpu/generation/likeliest.js"
SIZES = (1, 2, 7, 255, 1024, 4097, 32000, 151936)


def in_node(expression: str) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    module = json.dumps(MODULE.as_uri())
    script = f"import * as m from {module}; console.log(JSON.stringify({expression}))"
    run = [node, "--input-type=module", "-e", script]
    return json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


@pytest.fixture(scope="module")
def shaders() -> tuple[list[str], dict[int, int]]:
    codes, groups = in_node(f"[m.CODES, {list(SIZES)}.map(m.groupsOf)]")
    return codes, dict(zip(SIZES, groups, strict=True))


def chosen(shaders: tuple[list[str], dict[int, int]], logits: np.ndarray) -> tuple[int, int, int]:
    """Id, and the keys of the largest and of the second largest."""
    codes, groups = shaders
    access = ("read", "read_write")
    count = groups[len(logits)]
    dispatches = (
        Dispatch(codes[0], (count, 1, 1), ("a0", "s0"), access),
        Dispatch(codes[1], (1, 1, 1), ("s0", "a1"), access),
    )
    document = KernelDocument(dispatches, (16 * count,))
    words = np.frombuffer(run_document(document, [logits.tobytes(), 16])[1], np.uint32)
    assert words[1] == 0, "the id is the low half of an i64"
    return int(words[0]), int(words[2]), int(words[3])


def margins(keys: list[tuple[int, int, int]]) -> list[float]:
    made = in_node(f"{[list(k) for k in keys]}.map((k) => String(m.choiceOf(...k).margin))")
    return [float(margin.replace("Infinity", "inf")) for margin in made]


def cases() -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    found = [rng.standard_normal(n).astype(np.float32) for n in SIZES]
    for n in (255, 32000):  # ties, in different workgroups too
        tied = rng.integers(-2, 3, n).astype(np.float32)
        found += [tied, -np.abs(tied) - 1]
    flat = np.full(4097, -np.inf, np.float32)
    flat[[4000, 17]] = 3.0, 2.5
    tiny = np.zeros(1024, np.float32)
    tiny[700], tiny[701] = 1e-45, 2e-45  # denormal numbers
    signs = np.full(1024, -0.0, np.float32)
    signs[5] = 0.0
    return [*found, flat, tiny, signs, np.full(7, -np.inf, np.float32)]


def test_the_largest_logit_with_its_lead(shaders: tuple[list[str], dict[int, int]]) -> None:
    given = cases()
    keys = [chosen(shaders, logits) for logits in given]
    for logits, (id_, _, _), margin in zip(given, keys, margins(keys), strict=True):
        assert id_ == int(np.argmax(logits))
        rest = np.delete(logits.astype(np.float64), id_)
        with np.errstate(invalid="ignore"):
            lead = float(logits[id_]) - (rest.max() if len(rest) else -np.inf)
        assert margin == pytest.approx(lead, rel=0, abs=0, nan_ok=True)


def test_what_is_no_number_is_found(shaders: tuple[list[str], dict[int, int]]) -> None:
    keys = []
    for at in (0, 5, 254):
        for bits in (0x7FC00000, 0xFFC00000, 0x7F800001):
            logits = np.arange(255, dtype=np.float32)
            logits.view(np.uint32)[at] = bits
            keys.append(chosen(shaders, logits))
    assert all(np.isnan(margin) for margin in margins(keys))
