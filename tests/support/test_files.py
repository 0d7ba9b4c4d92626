"""Writing beside a file and taking its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nnjit_studio.errors import BundleError, UserError
from nnjit_studio.support.files import replacing


def test_the_new_file_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    out.write_text("old")
    with replacing(out) as part:
        part.write_text("new")
        assert out.read_text() == "old"
        assert (part.name, part.parent.parent) == (out.name, tmp_path)
    assert out.read_text() == "new"
    assert list(tmp_path.iterdir()) == [out]


def test_after_an_error_everything_is_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    out.write_text("old")
    with pytest.raises(ValueError, match="half"), replacing(out) as part:
        part.write_text("ne")
        raise ValueError("half")
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with replacing(tmp_path / "made") as part:
        part.touch()
    assert (tmp_path / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    absent = tmp_path / "absent" / "a.json"
    with pytest.raises(UserError, match=r"The file .*a\.json cannot be written: No such"):
        write(absent)
    with pytest.raises(BundleError, match=r"The bundle .* cannot be written"):
        write(tmp_path, "The bundle", BundleError)
    with pytest.raises(UserError, match="No such file"), replacing(tmp_path / "nothing"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_and_a_pipe_gets_the_bytes(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "new" / "file", tmp_path / "link", tmp_path / "pipe"
    target.parent.mkdir()
    link.symlink_to(target)
    for text in ("first", "second"):
        with replacing(link) as part:
            part.write_text(text)
        assert link.is_symlink() and target.read_text() == text
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with replacing(pipe) as part:
        part.write_text("through")
    assert os.read(reader, 99) == b"through" and pipe.is_fifo()
    os.close(reader)


def test_links_that_lead_to_one_another_are_told(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(UserError, match="Too many levels"):
        write(link)
    assert link.is_symlink()


def write(out: Path, *words: Any) -> None:
    with replacing(out, *words) as part:
        part.touch()
