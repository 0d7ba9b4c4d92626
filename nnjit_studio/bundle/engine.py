"""The files of the engine that a bundle ships."""

from __future__ import annotations

import json
from importlib.resources import files

from nnjit_studio.errors import BugError

LIST_FILE = "bundle_files.json"


def engine_files(generation: bool = False, gpu: bool = False) -> dict[str, bytes]:
    """Name in the bundle to contents, as ``resources/page/bundle_files.json`` lists them.

    ``generation`` adds what only decoders need, ``gpu`` what kernels for WebGPU need.

    Raises
    ------
    BugError
        When the list or a file of it is missing from this installation.
    """
    page = files("nnjit_studio.resources") / "page"
    try:
        listed = json.loads((page / LIST_FILE).read_text("utf-8"))
        parts = ("engine", *(["generation"] if generation else ()), *(["gpu"] if gpu else ()))
        scripts = [name for part in parts for name in listed[part]]
        sources = {name: name for name in scripts} | listed["page"]
        return {name: (page / source).read_bytes() for name, source in sources.items()}
    except (OSError, ValueError, KeyError) as e:
        raise BugError(
            f"The engine's files are not complete in this installation: {e}.",
            "Install NNJIT Studio again.",
        ) from e
