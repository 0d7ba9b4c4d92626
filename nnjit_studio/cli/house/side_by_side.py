"""The verb ``devices compare``: the browsers of this machine, side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from nnjit_studio.analysis.browsers.comparison import BrowserComparison
from nnjit_studio.analysis.browsers.tables import as_csv, as_text
from nnjit_studio.cli.common import INPUTS, JSON, MODEL, answer, note, print_json
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.running import workbench
from nnjit_studio.cli.target_options import TARGET_HELP, target_options
from nnjit_studio.cli.tune import line_of
from nnjit_studio.cli.verbs import FILE, POSITIVE, group, option, same, verb
from nnjit_studio.engine.browsers.browsers import find_all
from nnjit_studio.errors import UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.support.files import replacing, write_json
from nnjit_studio.tuner.events import Event
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.side_by_side import compare_browsers

T = TypeVar("T")


@dataclass(frozen=True)
class CompareOptions:
    """Which browsers, for how long, and where the table goes."""

    targets: tuple[str, ...] = option(
        (),
        f"Several times: {TARGET_HELP.partition(', or device')[0]}. By default the embedded view "
        "and every browser that is found.",
        flag="--target",
        multiple=True,
    )
    seconds: float = option(30.0, "Seconds of each browser's session.", type=POSITIVE)
    inputs: Feeds | None = same(INPUTS)
    output: Path | None = option(
        None, "Write the table, .csv, or all samples, .json.", flag="-o --output", type=FILE
    )


@verb("compare")
def compare_devices(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    options: CompareOptions = group(CompareOptions),
    target: TargetOptions = target_options("threads", "no_sandbox", "database"),
    as_json: bool = JSON,
) -> None:
    """Tune MODEL in the browsers of this machine in turns, and show where they differ.

    Then each winner runs in every other browser, in turns with that one's own. The table has the
    winners, and what one set of settings for all browsers would cost each: its time by that with
    its own winners, with the 95 % interval. Browsers run one after the other.
    """
    if options.output is not None and options.output.suffix not in (".csv", ".json"):
        raise UserError(f"{options.output.name} is no table.", "End it in .csv or .json.")
    names = options.targets or ("embedded", *(browser.name for browser in find_all()))

    def within(browser: str, work: Callable[[Workbench], T], /) -> T:
        with workbench(replace(target, target=browser), importing) as opened:
            return opened.run(lambda: work(opened.bench))

    def tell(browser: str, event: Event) -> None:
        document = event.to_json()
        if as_json:
            print_json({"browser": browser, **document})
        elif text := line_of(document):
            note(f"{browser:<10} {document['t_s']:6.1f} s  {text}")

    found = compare_browsers(within, names, model, options.seconds, note, options.inputs, tell)
    if options.output is not None:
        write_table(options.output, found)
        note(f"wrote {options.output}")
    answer(as_json, found.to_json(), as_text(found))


def write_table(path: Path, found: BrowserComparison) -> None:
    """A table or all samples, by the end of the name."""
    if path.suffix == ".json":
        write_json(path, found.to_json())
        return
    with replacing(path, "The table") as part:
        part.write_text(as_csv(found), encoding="utf-8")
