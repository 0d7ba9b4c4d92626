"""One line of the log for each event that a reader would look for later."""

from __future__ import annotations

import logging

from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.widgets.text import short_key

log = logging.getLogger(__name__)


def note(event: ev.Event) -> None:
    """Write the event to the log, if it is worth a line."""
    match event:
        case ev.SessionStarted():
            log.info("tuning %s: %d workloads", event.model, len(event.workloads))
        case ev.SpaceBuilt():
            log.info("%s: %d candidates", short_key(event.workload), len(event.candidates))
        case ev.Compiled() if event.error:
            log.warning("%s %s: %s", short_key(event.workload), event.candidate, event.error)
        case ev.Measured() if event.state in ("wrong", "impossible", "failed"):
            where = short_key(event.workload)
            log.warning("%s %s is %s: %s", where, event.candidate, event.state, event.reason)
        case ev.Drift():
            log.warning("%s", event.what)
        case ev.FellBack():
            log.warning("%s The model runs in Wasm now.", event.reason)
        case ev.Swapped():
            speeds = f"{event.gflops_before:.1f} -> {event.gflops:.1f} GFLOP/s"
            log.info("%s now runs %s: %s", short_key(event.workload), event.candidate, speeds)
        case ev.ModelTimed():
            log.info("model: %.2f ms", event.ms)
        case ev.Finished():
            log.info("tuning ended (%s) after %.1f s", event.reason, event.t_s)
