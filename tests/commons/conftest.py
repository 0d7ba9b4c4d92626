"""Real databases: a file of SQLite, and a PostgreSQL that this run starts and stops."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnjit_studio.commons.server.store import Store

_FOUND = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
PROGRAMS = _FOUND[-1].parent if _FOUND else Path(shutil.which("initdb") or "").parent


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a new cluster, owned by another user where we are root: it refuses root."""
    if not (PROGRAMS / "initdb").exists():
        pytest.skip("no PostgreSQL on this machine")
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    folder = Path(tempfile.mkdtemp(prefix="nnjit-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, user)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def call(program: str, *words: str) -> None:
        done = subprocess.run(
            [str(PROGRAMS / program), "-D", str(folder / "data"), *words],
            user=user if os.geteuid() == 0 else None,
            cwd=folder,
            env=os.environ
            | {"LC_ALL": "C.UTF-8"},  # the locale of whoever runs the tests may not be installed
            stdout=subprocess.DEVNULL,  # a pipe would be held open by the server
            stderr=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == 0, (program, (folder / "log").exists())

    call("initdb", "-U", "commons", "--auth=trust", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    call("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql://commons@127.0.0.1:{port}/postgres"
    finally:
        call("pg_ctl", "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'commons.db'}"
        return
    import psycopg

    server: str = request.getfixturevalue("postgres")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    yield server


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store(url)
    yield opened
    opened.close()
