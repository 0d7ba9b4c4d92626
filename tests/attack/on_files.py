"""Attacks on files: damaged models, tampered bundles, damaged databases."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from hostile_models import HOSTILE, doubling_functions, relus, save
from onnx_models import mlp
from outcomes import Campaign, Outcome
from test_bundle import kernels, plan
from test_database import record

from nnjit_studio.bundle import BundleParts, engine_files, verify_bundle, write_bundle
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.database import KernelDatabase
from nnjit_studio.database.transfer import read_records
from nnjit_studio.errors import BugError, DatabaseError, UserError

LATE_S = 10.0
"""Of the processor; a machine that is busy with other things is not the model's fault."""
BAD = ("died", "late", "no sentence")
"""What no file may come to."""
HUNG_S = 300.0
"""Of the clock, for what waits and does not compute; long, for a busy machine waits too."""


def models(run: Campaign) -> Outcome:
    """Mutations of a few models, every truncation of the first, and models that ask for much."""
    save(relus(20), run.folder / "relus.onnx")
    bases = [mlp(run.folder / "mlp.onnx").read_bytes(), (run.folder / "relus.onnx").read_bytes()]
    bases.append(doubling_functions(3).SerializeToString())
    found: Counter[str] = Counter()
    process = warm(run.folder)
    for _, data in zip(run.rounds(), _damaged(run.rng, bases, run.start), strict=False):
        path = run.folder / "damaged.onnx"
        path.write_bytes(data)
        result, seconds = _imported(process, path)
        found[result] += 1
        if seconds > LATE_S:
            found["late"] += 1
            run.keep(path, "late")
        if found["died"] + found["no sentence"] > len(run.kept):
            run.keep(path, "model")
    process.close()
    counts = {name: found[name] for name in (*BAD, "refused", "valid")}
    return run.outcome(not any(counts[name] for name in BAD), counts)


def warm(folder: Path) -> CompileProcess:
    """A process that has loaded what the first import loads."""
    process = CompileProcess()
    process.import_model(mlp(folder / "first.onnx"), folder / "first.bin")
    return process


def _imported(process: CompileProcess, path: Path) -> tuple[str, float]:
    """What became of a model, and the seconds that it took."""
    before, clock = cpu_s(process), time.monotonic()
    try:
        process.import_model(path, path.with_suffix(".bin"))
        result = "valid"
    except UserError as e:
        result = "died" if "process died" in e.error else "refused"
    except BugError:
        result = "no sentence"
    waited = time.monotonic() - clock
    return result, waited if waited > HUNG_S else cpu_s(process) - before


def cpu_s(process: CompileProcess) -> float:
    """Processor seconds of the child so far; of one that ended they are lost."""
    child = process._child.process
    try:
        fields = Path(f"/proc/{child.pid if child else 0}/stat").read_text().split()
    except OSError:
        return 0.0
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _damaged(rng: random.Random, bases: list[bytes], cut: int) -> Iterator[bytes]:
    """Truncations, from ``cut`` on, and mutations in turns, for ever."""
    while True:
        data = bytearray(rng.choice(bases))
        spot = rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            cut = (cut + 1) % len(bases[0])
            data = bytearray(bases[0][:cut])
        elif kind == 1:
            data[spot] ^= 1 << rng.randrange(8)
        elif kind == 2:
            for _ in range(rng.randrange(1, 16)):
                data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 3:
            data[spot:spot] = bytes(data[spot : spot + rng.randrange(1, 200)])
        else:
            del data[spot : spot + rng.randrange(1, 50)]
        yield bytes(data)


def hostile_models(run: Campaign) -> Outcome:
    """Small models that ask for minutes or gigabytes: seconds and resident bytes of each."""
    process, slowest, peak = warm(run.folder), 0.0, 0
    failures = []
    for name, make in HOSTILE.items():
        run.done += 1
        path = run.folder / f"{name}.onnx"
        save(make(), path)
        result, seconds = _imported(process, path)
        slowest = max(slowest, seconds)
        failures += [name] if result != "refused" else []
        child = process._child.process
        status = Path(f"/proc/{child.pid}/status").read_text() if child else ""
        lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
        peak = max(peak, *(int(line.split()[1]) for line in lines), 0)
    process.close()
    holds = not failures and slowest <= LATE_S and peak < 1 << 20
    return run.outcome(
        holds,
        {"not refused": len(failures)},
        {"MiB at most": peak >> 10},
        f"slowest {slowest:.1f} s{''.join(f'; {name} was not refused' for name in failures)}",
    )


def bundles(run: Campaign) -> Outcome:
    """One bit of a bundle with the real engine, anywhere."""
    weights, path = run.folder / "weights.bin", run.folder / "b.zip"
    weights.write_bytes(bytes(512))
    parts = BundleParts(plan(), weights, kernels(), engine_files())
    good = write_bundle(path, parts, "tiny", {"target": "embedded"}).read_bytes()
    missed = 0
    for _ in run.rounds():
        bad = bytearray(good)
        bad[run.rng.randrange(len(bad))] ^= 1 << run.rng.randrange(8)
        path.write_bytes(bad)
        missed += verify_bundle(path).ok
    return run.outcome(not missed, {"not found": missed})


def databases(run: Campaign) -> Outcome:
    """Bytes of a database changed, then imported: read or refused in words."""
    path = run.folder / "damaged.db"
    with KernelDatabase.open(path) as db:
        for number in range(20):
            db.commit_record(record(number))
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("VACUUM")
    good, raws, refused = path.read_bytes(), Counter[str](), 0
    for _ in run.rounds():
        bad = bytearray(good)
        for _ in range(run.rng.choice((1, 4, 64))):
            bad[run.rng.randrange(len(bad))] = run.rng.randrange(256)
        path.write_bytes(bad)
        try:
            read_records(path)
        except DatabaseError:
            refused += 1
        except Exception as e:
            raws[type(e).__name__] += 1
            run.keep(path, "database")
    counts = {"raw errors": sum(raws.values()), "refused": refused}
    return run.outcome(not raws, counts, note=", ".join(raws))
