"""Parts of a bundle, and its budget."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from nnjit_studio.bundle import sizes as module
from nnjit_studio.bundle.sizes import check_budget, sizes
from nnjit_studio.errors import BundleError


def test_a_budget_names_the_largest_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "read_bundle", lambda path: None)
    bundle = tmp_path / "m.zip"
    contents = {"weights.bin": 5000, "engine/e.js": 200, "nnjit.js": 30, "demo/page.js": 300}
    contents |= {"index.html": 10, "kernels/k.wasm": 70, "manifest.json": 9, "plan.json": 8}
    with zipfile.ZipFile(bundle, "w") as archive:
        for name, size in contents.items():
            archive.writestr(name, bytes(size))
    assert sizes(bundle) == {
        "weights": 5000, "page": 310, "engine": 230, "kernels": 70, "manifest": 9, "plan": 8,
    }  # fmt: skip
    check_budget(bundle, 1)
    with pytest.raises(BundleError, match=r"its budget is 0\.001 MB; .* the weights with 0\.01 MB"):
        check_budget(bundle, 0.001)
