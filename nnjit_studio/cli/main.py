"""The command line: one verb for each job, and the only place that wires the rooms."""

from __future__ import annotations

import errno
import logging
import os
import sys

import click

from nnjit_studio import __version__
from nnjit_studio.cli.common import note, print_json
from nnjit_studio.cli.verbs import LazyGroup
from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.support.interrupts import interrupts, stop

VERBS = {
    "advise": "verdict.advise:advise",
    "bench": "bench.main:bench",
    "check": "deployment:check",
    "compare": "verdict.compare:compare",
    "compile": "kernel:compile_kernel",
    "db": "db:db",
    "devices": "house.devices:devices",
    "diff": "profile:diff",
    "doctor": "doctor:doctor",
    "export": "run:export",
    "faster": "profile:faster",
    "fleet": "fleet:fleet",
    "generate": "generate:generate",
    "inspect": "foreign_wasm.inspect:inspect",
    "live": "foreign_wasm.live:live",
    "offload": "bench.offload:offload",
    "peers": "verdict.peers:peers",
    "profile": "profile:profile",
    "run": "run:run_model",
    "sample": "sample:sample",
    "serve": "deployment:serve",
    "server": "commons.server:server",
    "share": "commons.share:share",
    "space": "space:space",
    "studio": "studio:studio",
    "tune": "tune:tune",
    "turbo": "foreign_wasm.turbo:turbo",
    "verify": "run:verify",
}


@click.group(
    cls=LazyGroup,
    package=__package__,
    verbs=VERBS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="nnjit")
@click.option("-v", "--verbose", count=True, help="More log lines on stderr; twice for all.")
def cli(verbose: int) -> None:
    """Tune neural-network kernels inside a real browser engine and ship the result."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(level)  # the window's log shows more than the terminal
    logging.basicConfig(
        level=level, handlers=[terminal], format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if not verbose:
        # Without a GPU, Qt warns of every rendering path that it tries and leaves.
        logging.getLogger("nnjit.qt").setLevel(logging.ERROR)


def main(arguments: list[str] | None = None) -> None:
    """Entry point ``nnjit``: 0 ok, 1 the job failed, 2 wrong usage."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        with interrupts(stop):
            cli.main(args=given, prog_name="nnjit", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as e:
        e.show()
        code = 2
    except click.ClickException as e:
        if "--json" in given:
            tell(UserError(e.format_message(), "--help lists what a verb takes."), True)
        else:
            e.show()
        code = e.exit_code
    except (click.Abort, KeyboardInterrupt):
        note("Stopped.")
        code = 1
    except NnjitError as e:
        tell(e, "--json" in given)
        code = 1
    except BrokenPipeError:
        # The reader of our output left; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as e:
        if e.errno == errno.ENOSPC and e.filename is None:
            unwritten = UserError("The output has no room left.", "Write it to another place.")
            tell(unwritten, as_json=False)
            os._exit(1)  # else the interpreter tries to write the rest once more
        logging.getLogger(__name__).debug("A file or the system refused", exc_info=True)
        name = f"{str(e.filename)!r} cannot be used" if e.filename else "The system refused"
        wrong = UserError(f"{name}: {e.strerror or e}.", "Check its folder and your permissions.")
        tell(wrong, "--json" in given)
        code = 1
    else:
        code = 0
    sys.exit(code)


def tell(error: NnjitError, as_json: bool) -> None:
    """Print an error: a JSON document on stdout, or a sentence on stderr."""
    if as_json:
        print_json(error.to_json())
    else:
        note(str(error))
