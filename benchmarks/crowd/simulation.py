"""``make crowd-simulation``: three crowds at full size, their figures as JSON lines."""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from crowd import CrowdOptions, merged, simulate

from nnjit_studio.support.processes import usable_cores

_CHUNK = 10
"""Kinds that a process takes at a time."""


def main() -> None:
    """Run the crowds one after another, each over all processors."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("devices", 1_000_000), ("kinds", 2_000), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    crowd = partial(CrowdOptions, seed=given.seed)
    attacked = max(1, given.kinds // 100)
    for name, options in (
        ("honest", crowd(given.devices, given.kinds)),
        ("30 % liars", crowd(given.devices, given.kinds, liars=0.3)),
        # Each attacked kind has all of the Sybils to itself.
        ("10,000 Sybils", crowd(given.devices // 100, attacked, sybils=10_000)),
    ):
        print(json.dumps({"crowd": name, **_run(options)}), flush=True)


def _run(options: CrowdOptions) -> dict[str, float]:
    parts = [
        range(first, min(first + _CHUNK, options.kinds))
        for first in range(0, options.kinds, _CHUNK)
    ]
    with ProcessPoolExecutor(usable_cores()) as pool:
        return merged(pool.map(partial(simulate, options), parts)).to_json()


if __name__ == "__main__":
    main()
