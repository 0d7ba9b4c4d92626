"""The shape of the source tree: sizes of folders, files and functions, and no import circles.

Import directions between rooms are contracts in ``.importlinter``; the JavaScript's shape is
held by ``tests/page/structure.test.js``.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("nnjit_studio", "compiler", "ui", "resources")
MOST_FILES = 20
"""Source files in one folder."""
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 80
MOST_PARAMETERS = 8
"""Of a function; verbs of the command line have one for each option."""
OPTIONAL = {"nnjit_studio.engine.gpu_bridge.device"}
"""Modules that cannot be imported where an optional package is missing: for wgpu."""


@functools.cache
def sources() -> tuple[Path, ...]:
    return tuple(sorted(f for room in ROOMS for f in (ROOT / room).rglob("*.py")))


@functools.cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


@functools.cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(file)))


def name_of(file: Path) -> str:
    """Dotted name that a file imports by."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[0] == "nnjit_studio" else ("nnjit_studio", *parts))


@functools.cache
def modules() -> dict[str, Path]:
    return {name_of(file): file for file in sources()}


def imported(node: ast.AST) -> Iterator[str]:
    """Modules of the project that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules())
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            found = inner if inner in modules() else node.module
            if found in modules():
                yield found


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for file in sources():
        for node in nodes(file):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{file.relative_to(ROOT)}:{node.lineno} {node.name}", node


def test_no_folder_is_crowded() -> None:
    counts: dict[Path, int] = {}
    for file in sources():
        counts[file.parent] = counts.get(file.parent, 0) + 1
    crowded = {str(f.relative_to(ROOT)): n for f, n in counts.items() if n > MOST_FILES}
    assert crowded == {}


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {file.parent for file in sources()}
    assert {str(f) for f in folders if not (f / "__init__.py").exists()} == set()


def test_no_file_is_long() -> None:
    lines = {str(f.relative_to(ROOT)): len(tree_lines(f)) for f in sources()}
    assert {name: n for name, n in lines.items() if n > MOST_LINES} == {}


def tree_lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines()


def test_no_function_is_long() -> None:
    lengths = {name: (node.end_lineno or 0) - node.lineno + 1 for name, node in functions()}
    assert {name: n for name, n in lengths.items() if n > MOST_LINES_OF_A_FUNCTION} == {}


def test_no_function_has_many_parameters() -> None:
    counts = {
        name: len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
        - (node.args.args[:1] != [] and node.args.args[0].arg in ("self", "cls"))
        for name, node in functions()
        if not (name.startswith("nnjit_studio/cli/") and node.decorator_list)
    }
    assert {name: n for name, n in counts.items() if n > MOST_PARAMETERS} == {}


def test_modules_import_in_no_circle() -> None:
    """Imports inside functions count: they hide a circle, they do not break it."""
    graph = {
        name: {
            found
            for node in nodes(file)
            for found in imported(node)
            # A package's __init__ collects what its modules define.
            if found != name and not name.startswith(f"{found}.")
        }
        for name, file in modules().items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        raise AssertionError(" -> ".join(circle.args[1])) from None


def test_no_import_hides_behind_type_checking() -> None:
    hidden = [
        f"{file.relative_to(ROOT)}:{inner.lineno} {found}"
        for file in sources()
        for node in nodes(file)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
        for found in imported(inner)
        if found not in OPTIONAL
    ]
    assert hidden == []
