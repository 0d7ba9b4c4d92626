"""The verbs of the kernel database: `nnjit db list|show|export|import|vacuum`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from nnjit_studio.cli.common import database_option, default_database, json_option, print_json
from nnjit_studio.errors import UserError
from nnjit_studio.records import code_of


@click.group()
def db() -> None:
    """The kernel database."""


@contextmanager
def open_database(path: Path | None, read_only: bool) -> Iterator[Any]:
    from nnjit_studio.database import KernelDatabase

    with KernelDatabase.open(path or default_database(), read_only=read_only) as database:
        yield database


@db.command(name="list")
@click.option("--workload", default="", help="Part of a workload's name.")
@click.option("--state", default="", help="won, slower, wrong, ...")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1))
@database_option
@json_option
def db_list(workload: str, state: str, limit: int, database: Path | None, as_json: bool) -> None:
    """Records, newest first."""
    with open_database(database, True) as opened:
        records = opened.all_records(limit=limit, workload=workload, state=state)
    if as_json:
        print_json([record_row(r) for r in records])
    else:
        for r in records:
            click.echo(
                f"{r.created}  {r.workload.split('#')[0]:<44} {r.state:<10} "
                f"{r.gflops:8.1f} GFLOP/s  {code_of(r.key.tier)}  {r.settings}"
            )


def record_row(record: Any) -> dict[str, Any]:
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


@db.command(name="show")
@click.argument("workload")
@database_option
@json_option
def db_show(workload: str, database: Path | None, as_json: bool) -> None:
    """Everything known of the workloads whose name contains WORKLOAD."""
    with open_database(database, True) as opened:
        rows = [record_row(r) for r in opened.all_records(limit=10_000, workload=workload)]
    if not rows:
        raise UserError(f"Nothing is known of {workload!r}.", "`nnjit db list` shows what is.")
    if as_json:
        print_json(rows)
    else:
        click.echo(json.dumps(rows, indent=1))


@db.command(name="export")
@click.argument("output", type=click.Path(path_type=Path))
@database_option
@json_option
def db_export(output: Path, database: Path | None, as_json: bool) -> None:
    """Write all records to a .db, .json or .csv file."""
    with open_database(database, True) as opened:
        count = opened.export_to(output)
    if as_json:
        print_json({"ok": True, "records": count, "path": str(output)})
    else:
        click.echo(f"wrote {count} records to {output}")


@db.command(name="import")
@click.argument("source", type=click.Path(path_type=Path))
@database_option
@json_option
def db_import(source: Path, database: Path | None, as_json: bool) -> None:
    """Add the records of another database."""
    with open_database(database, False) as opened:
        count = opened.import_from(source)
    if as_json:
        print_json({"ok": True, "records": count})
    else:
        click.echo(f"added {count} records")


@db.command(name="vacuum")
@database_option
@json_option
def db_vacuum(database: Path | None, as_json: bool) -> None:
    """Remove deleted records for good, and give unused space back."""
    with open_database(database, False) as opened:
        before = opened.path.stat().st_size
        purged = opened.vacuum()
        after = opened.path.stat().st_size
    if as_json:
        print_json({"ok": True, "purged": purged, "bytes_before": before, "bytes_after": after})
    else:
        click.echo(f"removed {purged} deleted records; {before} -> {after} bytes")
