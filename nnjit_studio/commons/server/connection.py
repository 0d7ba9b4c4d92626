"""Opening the database by its URL: SQLite or PostgreSQL, brought to the newest schema."""

from __future__ import annotations

import secrets as random_bytes
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from nnjit_studio.commons.server import tables
from nnjit_studio.errors import CommonsError

MIGRATIONS = Path(__file__).parent / "migrations"
_POOL = 8
_LOCK = 7_155_018
"""Of PostgreSQL's advisory locks, while the schema is brought up."""


def open_database(url: str) -> sa.Engine:
    """A database with the newest schema and its secret; other servers may be using it.

    Raises
    ------
    CommonsError
        When the URL names none, or it cannot be opened.
    """
    try:
        parsed = sa.make_url(url)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() == "sqlite":
            engine = _sqlite(parsed)
        else:
            engine = sa.create_engine(parsed, pool_size=_POOL, pool_pre_ping=True)
        migrate(engine)
    except (ArgumentError, SQLAlchemyError, ImportError) as e:
        raise CommonsError(
            f"The database cannot be opened: {str(e).splitlines()[0]}",
            "Give --database sqlite:///FILE or postgresql://USER@HOST/NAME.",
        ) from e
    return engine


def _sqlite(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, pool_size=_POOL, connect_args={"timeout": 30})

    @sa.event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # SQLAlchemy says when a transaction begins
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def begun(connection: sa.Connection) -> None:
        # A reader that becomes a writer half-way could not wait for another writer.
        reading = connection.get_execution_options().get("reading", False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def migrate(engine: sa.Engine) -> None:
    """Run the steps that are missing, in one transaction, and make the secret once."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        insert = upsert(connection, tables.secrets)
        made = {"name": "source", "value": random_bytes.token_hex(32)}
        connection.execute(insert.values(made).on_conflict_do_nothing())


def upsert(connection: sa.Connection, table: sa.Table) -> Any:
    """An insert that can say what happens on a conflict, in the database's dialect."""
    made = postgresql if connection.dialect.name == "postgresql" else sqlite
    return made.insert(table)
