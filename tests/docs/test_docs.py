"""Names in README and docs exist: verbs, options, files, headings; and their words are plain."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from nnjit_studio.cli.main import cli
from nnjit_studio.engine.browsers import flags as browser_flags

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks/README.md"]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`(?:[^`\s/]*/)*(nnjit [^`\n]*)`")
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)
FILE = re.compile(r"`([\w./-]+\.(?:py|js|md|j2))`")
OPTION = re.compile(r"`(--[a-z][a-z0-9-]*)[^`]*`")
MAKE = re.compile(r"(?:^|`)make ([a-z][a-z0-9-]*)", re.M)
OF_BROWSERS = {
    switch.partition("=")[0]
    for switches in (
        browser_flags.NAMED_ADAPTER,
        browser_flags.LINUX_GPU,
        browser_flags.LINUX_HEADLESS_GPU,
        browser_flags.SOFTWARE_GPU,
    )
    for switch in switches
}
OF_OTHERS = {"--bless", "--wasm-compiler", "--trace-wasm-compilation-times", *OF_BROWSERS}
"""Options of pytest (tests/conftest.py), what Chromium is started with, and flags of engines."""
ROOMS = ("nnjit_studio", "compiler", "ui", "resources", "tests", "benchmarks", "docs")


def commands(text: str) -> Iterator[list[str]]:
    """Every ``nnjit ...`` of a page, as words after the program's name."""
    lines = [match[1] for match in CODE.finditer(text)]
    for block in FENCED.finditer(text):
        joined = block[1].replace("\\\n", " ")
        lines += [m[1] for m in re.finditer(r"^\s*(?:\S*/)?(nnjit .*)$", joined, re.M)]
    for line in lines:
        yield shlex.split(line, comments=True)[1:]


def options_of(command: click.Command) -> set[str]:
    options = [p for p in command.params if isinstance(p, click.Option)]
    names = {name for p in options for name in (*p.opts, *p.secondary_opts)}
    return names | {"--help", "-h"}


def verbs_of(group: click.Group) -> dict[str, click.Command]:
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def every_command(group: click.Command) -> Iterator[click.Command]:
    yield group
    if isinstance(group, click.Group):
        for command in verbs_of(group).values():
            yield from every_command(command)


def problem_of(words: list[str]) -> str:
    """What is wrong with a command line; empty when its verb and options exist."""
    command: click.Command = cli
    for word in words:
        if word.startswith("-") and not word.lstrip("-").isdigit():
            if word.split("=")[0] not in options_of(command):
                return f"{command.name} has no {word}"
        elif isinstance(command, click.Group):
            if word.isupper():  # a placeholder such as VERB
                return ""
            verbs = verbs_of(command)
            if word not in verbs:
                return f"{command.name} has no verb {word}"
            command = verbs[word]
    return ""


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("tune m.onnx --seconds 3", ""),
        ("db list --workload x", ""),
        ("tune m.onnx --second 3", "tune has no --second"),
        ("tun m.onnx", "cli has no verb tun"),
        ("db lst", "db has no verb lst"),
    ],
)
def test_a_wrong_command_is_found(line: str, problem: str) -> None:
    assert problem_of(line.split()) == problem


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_named_commands_exist(page: Path) -> None:
    named = list(commands(page.read_text("utf-8")))
    assert [(words, problem_of(words)) for words in named if problem_of(words)] == []


def test_the_readme_names_every_verb() -> None:
    named = {words[0] for words in commands(PAGES[0].read_text("utf-8"))}
    assert named == set(verbs_of(cli))


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_options_in_the_text_exist(page: Path) -> None:
    known = set().union(*(options_of(c) for c in every_command(cli))) | OF_OTHERS
    assert {o for o in OPTION.findall(page.read_text("utf-8")) if o not in known} == set()


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_relative_links_point_to_files(page: Path) -> None:
    links = [link.split("#")[0] for link in LINK.findall(page.read_text("utf-8"))]
    lost = [x for x in links if x and "://" not in x and not (page.parent / x).exists()]
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert set(MAKE.findall(page.read_text("utf-8"))) - targets == set()


@functools.cache
def files() -> tuple[str, ...]:
    found = (f for room in ROOMS for f in (ROOT / room).glob("**/*.*"))
    return tuple(str(f) for f in found if "node_modules" not in f.parts)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_named_files_exist(page: Path) -> None:
    named = FILE.findall(page.read_text("utf-8"))
    lost = [name for name in named if not any(f.endswith(f"/{name}") for f in files())]
    assert lost == []


# Headings, citations, words

HEADING = re.compile(r"^#+ (.+)$", re.M)
ANCHOR = re.compile(r"\]\(([^)\s#]*)#([^)\s]+)\)")
SECTION = re.compile(r"\bdesign(?:\.md)?,? section (\d+)")
CITED = re.compile(r'docs/(\w[\w-]*\.md), "([^"\n]+)"')
TERM = re.compile(r"^- \*\*(.+?)\*\*: ", re.M)
WORDS = """arena, bundle, candidate, challenger, cost model, device profile, duel, epilogue,
fixture, gate, hot swap, hub, incumbent, KV cache, kernel, lite space, microbenchmark, operator
fusion, plan, primitive, primitive vector, priority, record, round, search strategy, sentinel,
setting, step, tail, target, task scheduler, template, tier, tile sizes, tuning session, warm-up,
workload"""
BANNED = {
    r"\bbeside\b": "compared with; next to; during",
    r"\bfor else\b": "because otherwise",
    r"\bnobody's\b": "undefined",
    r"\bin thought\b": "simulated",
    r"\bmade good\b": "restored",
    r"\bto be had\b": "available",
    r"\ball the same\b": "nevertheless; equal",
    r"\b(?<!not )told apart\b": "distinguished",  # "not told apart" is an outcome
    r"\bone behind the other\b": "consecutive",
    r"\bwhat (?:lies|stands|comes) behind\b": "name the thing",
    r", for (?:it|they|there|nothing|nobody)\b": "because",
    r"^Who [a-z]+s\b": "name the subject",
    r"\(#\d+\)": "issue numbers mean nothing outside",
}
"""Idioms that a reader has to decode, and what to write instead."""
PROSE = [ROOT / "CHANGELOG.md", *(p for p in PAGES if p.name != "commands.md")]
"""All but the table of commands, whose texts are the window's."""


def headings(page: Path) -> list[str]:
    return HEADING.findall(page.read_text("utf-8"))


def anchor(heading: str) -> str:
    """The fragment that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def sources() -> Iterator[tuple[str, str]]:
    """Path and text of every Python and JavaScript source of the program."""
    for room in ("nnjit_studio", "compiler", "ui", "resources"):
        for path in sorted((ROOT / room).rglob("*.[pj][ys]")):
            yield str(path.relative_to(ROOT)), path.read_text("utf-8")


def idioms(text: str) -> list[str]:
    return [m[0] for idiom in BANNED for m in re.finditer(idiom, text, re.I | re.M)]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_to_headings_resolve(page: Path) -> None:
    lost = [
        (name, fragment)
        for name, fragment in ANCHOR.findall(page.read_text("utf-8"))
        if "://" not in name
        and fragment not in map(anchor, headings(page.parent / name if name else page))
    ]
    assert lost == []


def test_sections_of_the_design_that_sources_cite_exist() -> None:
    there = {int(h.split(".")[0]) for h in headings(ROOT / "docs/design.md") if h[0].isdigit()}
    cited = [(path, int(n)) for path, text in sources() for n in SECTION.findall(text)]
    assert cited, "no source cites the design"
    assert [(path, n) for path, n in cited if n not in there] == []


def test_headings_that_sources_cite_exist() -> None:
    cited = [(path, *c) for path, text in sources() for c in CITED.findall(text)]
    assert cited, "no source cites a heading"
    assert [c for c in cited if c[2] not in headings(ROOT / "docs" / c[1])] == []


def test_the_glossary_is_sorted_and_holds_the_words_of_the_project() -> None:
    terms = [t.lower() for t in TERM.findall((ROOT / "docs/glossary.md").read_text("utf-8"))]
    assert terms == sorted(set(terms))
    assert {" ".join(w.split()).lower() for w in WORDS.split(",")} - set(terms) == set()


def test_terms_of_the_glossary_are_used() -> None:
    pages = [p.read_text("utf-8") for p in PAGES if p.name != "glossary.md"]
    used = " ".join(" ".join((*pages, *(text for _, text in sources()))).lower().split())
    terms = TERM.findall((ROOT / "docs/glossary.md").read_text("utf-8"))
    assert [t for t in terms if t.lower() not in used] == []


@pytest.mark.parametrize("page", PROSE, ids=[p.name for p in PROSE])
def test_words_are_plain(page: Path) -> None:
    assert idioms(page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Ours beside theirs.", ["beside"]),
        ("besides the load, next to it", []),
        ("kept alive, for it is used", [", for it"]),
        ("a gate for it, for the bundle (#7)", ["(#7)"]),
    ],
)
def test_an_idiom_is_found(text: str, found: list[str]) -> None:
    assert idioms(text) == found


def test_the_readme_leads_to_every_page() -> None:
    links = LINK.findall(PAGES[0].read_text("utf-8"))
    assert {f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md")} - set(links) == set()
