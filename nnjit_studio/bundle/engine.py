"""The files of the engine that a bundle ships."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from nnjit_studio.errors import BugError

ROOT_FILES = ("index.html", "nnjit.js")
FOLDERS = ("engine", "sdk", "demo")


def engine_files(
    generation: bool = False,
    gpu: bool = False,
    any_size: bool = False,
    tuning: bool = False,
    text: bool = False,
    mixed: bool = False,
) -> dict[str, bytes]:
    """Path in the bundle to contents: all of ``resources/engine``, ``resources/sdk`` and
    ``resources/demo`` and, at the root, the bundle's page and its API, each under the path
    that it has in ``resources``.

    Folders named ``generation`` ship with ``generation`` (decoders), folders named ``gpu`` with
    ``gpu`` (kernels for WebGPU), folders named ``open`` with ``any_size``, folders named ``tuning``
    with ``tuning`` (kernels to try in the page), folders named ``text`` with ``text`` (a tokenizer
    for the page), folders named ``mixed`` with ``mixed`` (steps divided between WebGPU and Wasm).

    Raises
    ------
    BugError
        When a file or a folder is missing from this installation.
    """
    resources = Path(str(files("nnjit_studio.resources")))
    optional = (
        ("generation", generation),
        ("gpu", gpu),
        ("open", any_size),
        ("tuning", tuning),
        ("text", text),
        ("mixed", mixed),
    )
    left_out = {name for name, ships in optional if not ships}
    try:
        paths = [resources / name for name in ROOT_FILES]
        for folder in FOLDERS:
            found = [path for path in (resources / folder).rglob("*") if path.is_file()]
            if not found:
                raise FileNotFoundError(f"{folder} is empty")
            paths += found
        names = {path.relative_to(resources).as_posix(): path for path in paths}
        return {
            name: path.read_bytes()
            for name, path in names.items()
            if left_out.isdisjoint(name.split("/"))
        }
    except OSError as e:
        raise BugError(
            f"The engine's files are not complete in this installation: {e}.",
            "Install NNJIT Studio again.",
        ) from e
