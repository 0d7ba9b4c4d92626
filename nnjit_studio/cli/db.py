"""The verbs of the kernel database: `nnjit db list|show|sizes|export|import|vacuum|restore`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nnjit_studio.analysis.tuned_sizes import kernel_json, tables_text
from nnjit_studio.cli.common import JSON, answer, database_path
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import COUNT, PATH, argument, option, verb
from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import UserError
from nnjit_studio.records import TuningRecord, code_of
from nnjit_studio.support.tables import text_table

DATABASE: Any = OPTIONS["database"]
_NOTHING = {
    False: "The kernel database has no records yet. `nnjit tune MODEL` measures some.",
    True: "No record matches. `nnjit db list` shows all.",
}
COLUMNS = ("created", "workload", "state", "GFLOP/s", "code", "settings")


@click.group()
def db() -> None:
    """Query and maintain the kernel database."""


def opened(path: Path | None, read_only: bool = True) -> KernelDatabase:
    return KernelDatabase.open(database_path(path), read_only=read_only)


@verb("list")
def db_list(
    workload: str = option("", "Only workloads whose name contains this."),
    state: str = option("", "Only records in this state: won, faster, slower, wrong, ..."),
    limit: int = option(50, "Records shown.", type=COUNT),
    database: Path | None = DATABASE,
    as_json: bool = JSON,
) -> None:
    """List records, newest first."""
    with opened(database) as known:
        records = known.all_records(limit=limit, workload=workload, state=state)
    rows = [
        (r.created, r.workload.split("#")[0], r.state, f"{r.gflops:.1f}", code_of(r.key.tier),
         r.settings) for r in records
    ]  # fmt: skip
    text = (
        text_table(COLUMNS, rows, left=(0, 1, 2, 4, 5))
        if rows
        else _NOTHING[bool(workload or state)]
    )
    answer(as_json, [record_row(r) for r in records], text)


def record_row(record: TuningRecord) -> dict[str, Any]:
    """A record without its bytes, as JSON."""
    return {
        "workload": record.workload,
        "settings": record.settings,
        "state": record.state,
        "gflops": record.gflops,
        "median_ms": record.median_ms,
        "samples_ms": list(record.samples_ms),
        "sha256": record.sha256,
        "tier": record.key.tier,
        "code": code_of(record.key.tier),
        "target": record.key.target,
        "device_id": record.key.device_id,
        "browser": record.browser,
        "flags": record.flags,
        "compiler_version": record.key.compiler_version,
        "created": record.created,
        "error": record.error,
        "note": record.note,
        "tags": record.tags,
    }


@verb("show")
def db_show(
    workload: str = argument(), database: Path | None = DATABASE, as_json: bool = JSON
) -> None:
    """Show all records of the workloads whose name contains WORKLOAD."""
    with opened(database) as known:
        rows = [record_row(r) for r in known.all_records(limit=10_000, workload=workload)]
    if not rows:
        raise UserError(f"Nothing is known of {workload!r}.", "`nnjit db list` shows what is.")
    answer(as_json, rows, json.dumps(rows, indent=1))


@verb("sizes")
def db_sizes(database: Path | None = DATABASE, as_json: bool = JSON) -> None:
    """List kernels for any size whose settings were compared at several, newest first."""
    with opened(database) as known:
        found = known.size_tunings()
    answer(as_json, [kernel_json(each) for each in found], tables_text(found))


@verb("export")
def db_export(
    output: Path = argument(type=PATH), database: Path | None = DATABASE, as_json: bool = JSON
) -> None:
    """Write all records to a .db, .json or .csv file."""
    with opened(database) as known:
        count = known.export_to(output)
    document = {"ok": True, "records": count, "path": str(output)}
    answer(as_json, document, f"wrote {count} records to {output}")


@verb("import")
def db_import(
    source: Path = argument(type=PATH), database: Path | None = DATABASE, as_json: bool = JSON
) -> None:
    """Add the records of another database."""
    with opened(database, read_only=False) as known:
        count = known.import_from(source)
    answer(as_json, {"ok": True, "records": count}, f"added {count} records")


@verb("vacuum")
def db_vacuum(database: Path | None = DATABASE, as_json: bool = JSON) -> None:
    """Erase deleted records for good and free unused space."""
    with opened(database, read_only=False) as known:
        before = known.path.stat().st_size
        purged = known.vacuum()
        after = known.path.stat().st_size
    document = {"ok": True, "purged": purged, "bytes_before": before, "bytes_after": after}
    answer(as_json, document, f"removed {purged} deleted records; {before} -> {after} bytes")


@verb("restore")
def db_restore(database: Path | None = DATABASE, as_json: bool = JSON) -> None:
    """Take the last backup in place of the database, which is kept too."""
    backup, old = KernelDatabase.take_backup(database_path(database))
    document = {"ok": True, "backup": str(backup), "kept": str(old)}
    answer(as_json, document, f"took {backup}; the old file is {old}")


for each in (db_list, db_show, db_sizes, db_export, db_import, db_vacuum, db_restore):
    db.add_command(each)
