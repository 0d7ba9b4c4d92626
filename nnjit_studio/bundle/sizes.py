"""What the parts of a bundle weigh, and a budget for all of it."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from nnjit_studio.bundle.manifest import MANIFEST_FILE
from nnjit_studio.bundle.reader import read_bundle
from nnjit_studio.errors import BundleError

MB = 1_000_000
_WAYS = {
    "weights": "Import with --weights f16, or quantise the model.",
}


def sizes(bundle: Path) -> dict[str, int]:
    """Bytes in the zip by part, the largest first; their sum is less than the file by its names.

    Raises
    ------
    BundleError
        When it is no bundle, or a damaged one.
    """
    read_bundle(bundle)
    with zipfile.ZipFile(bundle) as archive:
        found: dict[str, int] = {}
        for entry in archive.infolist():
            part = _part(entry.filename)
            found[part] = found.get(part, 0) + entry.compress_size
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def check_budget(bundle: Path, budget_mb: float) -> None:
    """Refuse a bundle that is larger than its budget, in megabytes of 1,000,000 bytes.

    Raises
    ------
    BundleError
        When it is; the message names its largest part.
    """
    nbytes = bundle.stat().st_size
    if nbytes <= budget_mb * MB:
        return
    part, most = next(iter(sizes(bundle).items()))
    raise BundleError(
        f"The bundle has {nbytes / MB:.2f} MB, its budget is {budget_mb:g} MB; the largest part is "
        f"the {part} with {most / MB:.2f} MB.",
        _WAYS.get(part, "Raise --budget-mb, or leave the part out."),
    )


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Bytes that each part grew by, the largest change first; parts that did not are left out."""
    changes = {p: after.get(p, 0) - before.get(p, 0) for p in {*before, *after}}
    ordered = sorted(changes.items(), key=lambda each: (-abs(each[1]), each[0]))
    return {part: change for part, change in ordered if change}


def _part(name: str) -> str:
    top = name.split("/")[0]
    folders = {"kernels": "kernels", "samples": "sample inputs", "weights": "weights"}
    folders |= dict.fromkeys(("engine", "sdk"), "engine") | {"demo": "page"}
    files = dict.fromkeys(("plan.json", "segments.json", "prefill.json", "extend.json"), "plan")
    files["tokenizer.json"] = "tokenizer"
    files |= {MANIFEST_FILE: "manifest", "nnjit.js": "engine"}
    if top.startswith("weights"):
        return "weights"
    return (folders if "/" in name else files).get(top, "page")
