"""Public npm packages whose Wasm files must survive decoding and encoding, byte for byte.

``wasm_corpus.json`` pins packages, versions, files and their hashes; the files are
fetched with npm when this is run, and are no part of the repository.

    python benchmarks/wasm_corpus.py [--folder out/wasm-corpus] [--markdown benchmarks/results.md]
        [--only PACKAGE ...] [--look]
    python benchmarks/wasm_corpus.py --pin PACKAGE@VERSION ...
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from nnjit_studio.errors import NnjitError
from nnjit_studio.foreign_wasm.inspection.survey import survey_file
from nnjit_studio.foreign_wasm.offload.loops import find_loops
from nnjit_studio.foreign_wasm.turbo.candidates import find
from nnjit_studio.support.tables import text_table
from nnjit_studio.wasm_file.module import read
from nnjit_studio.wasm_file.round_trip import round_trip

CORPUS = Path(__file__).with_suffix(".json")


def fetch(spec: str, folder: Path) -> Path:
    """The tarball of ``package@version``, from the folder or else from npm."""
    kept = folder / (spec.lstrip("@").replace("/", "-").replace("@", "-") + ".tgz")
    if not kept.exists():
        done = subprocess.run(
            ["npm", "pack", spec, "--silent", "--pack-destination", str(folder)],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"npm cannot fetch {spec}: {done.stderr.strip()}")
        (folder / done.stdout.strip().splitlines()[-1]).replace(kept)
    return kept


def wasm_files(tarball: Path) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of the package's Wasm files; only modules, and each contents once."""
    seen: set[bytes] = set()
    with tarfile.open(tarball) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.name.endswith(".wasm") else None
            data = file.read() if file else b""
            if data.startswith(b"\0asm\1\0\0\0") and data not in seen:
                seen.add(data)
                yield member.name, data


def pin(specs: list[str], folder: Path) -> None:
    """Add packages to the list, or renew them."""
    known = {entry["package"] + "@" + entry["version"]: entry for entry in corpus()}
    for spec in specs:
        package, _, version = spec.rpartition("@")
        files = [
            {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in wasm_files(fetch(spec, folder))
        ]
        if files:
            known[spec] = {"package": package, "version": version, "files": files}
        print(f"{spec}: {len(files)} files")
    entries = [known[spec] for spec in sorted(known)]
    CORPUS.write_text(json.dumps({"packages": entries}, indent=1) + "\n")


def corpus() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(CORPUS.read_text())["packages"]
    return found


def look(name: str, data: bytes) -> str:
    """What ``nnjit inspect``, ``offload`` and ``turbo`` find in a module."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.wasm"
        path.write_bytes(data)
        problems = sum(bool(f.problem) for f in survey_file(path).functions)
        loops = find_loops(path, lambda _: None)
    fit = sum(loop.told["pattern"] != "" for loop in loops)
    carried = find(read(data), registers=15, fma=True).vector_loops
    told = f"{fit} of {len(loops)} loops fit a GPU, {carried} carry vectors"
    return f"{name}: {problems} functions not read, {told}"


def check(entry: dict[str, Any], folder: Path, looks: bool) -> Iterator[tuple[object, ...]]:
    """A row for each file of a package."""
    data = dict(wasm_files(fetch(f"{entry['package']}@{entry['version']}", folder)))
    for file in entry["files"]:
        found = data.get(file["path"], b"")
        name = f"{entry['package']} {entry['version']} {Path(file['path']).name}"
        if hashlib.sha256(found).hexdigest() != file["sha256"]:
            yield name, len(found), 0, 0, 0, 0, "", "other bytes than pinned"
            continue
        begun = time.perf_counter()
        try:
            trip = round_trip(found)
            seconds = f"{time.perf_counter() - begun:.1f}"
            if looks:
                print(look(name, found), flush=True)
        except NnjitError as e:
            yield name, len(found), 0, 0, 0, 0, "", e.error
            continue
        counts = (trip.functions, trip.identical, trip.padded, len(trip.unknown))
        yield (name, len(found), *counts, seconds, "; ".join(sorted(set(trip.unknown))) or "same")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("out/wasm-corpus"))
    parser.add_argument("--pin", nargs="*", default=[], metavar="PACKAGE@VERSION")
    parser.add_argument("--only", nargs="*", default=[], metavar="PACKAGE")
    parser.add_argument("--look", action="store_true", help="also inspect, and look for loops")
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.pin:
        pin(given.pin, given.folder)
        return 0
    rows: list[tuple[object, ...]] = []
    chosen = [e for e in corpus() if not given.only or e["package"] in given.only]
    for entry in chosen:
        for row in check(entry, given.folder, given.look):
            rows.append(row)
            print(*row, sep="  ", flush=True)
    bad = [row for row in rows if row[-1] != "same"]
    functions, identical, padded = (sum(row[n] for row in rows) for n in (2, 3, 4))  # type: ignore[misc]
    said = (
        f"{len(chosen)} packages, {len(rows)} modules, {sum(row[1] for row in rows):,} bytes, "  # type: ignore[misc]
        f"{functions:,} functions: {len(rows) - len(bad)} modules are the same after decoding and "
        f"encoding; {identical:,} functions byte for byte from their instructions, {padded:,} with "
        f"padded numbers and {functions - identical - padded:,} not understood, which are copied."
    )
    print(said)
    if given.markdown:
        columns = ("file", "bytes", "functions", "from instructions", "padded", "unknown", "s", "")
        table = text_table(columns, rows)
        with given.markdown.open("a") as file:
            file.write(f"\n## Wasm corpus ({date.today()})\n\n{said}\n\n```text\n{table}\n```\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
