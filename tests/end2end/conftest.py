"""What every command of these tests finds around it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def own_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A command that is given no database does not meet the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNJIT_DATABASE", str(tmp_path_factory.mktemp("database") / "kernels.db"))
        yield
