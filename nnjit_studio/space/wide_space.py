"""A space about ten times the lite one, to check the heuristics by.

It is not used for tuning: ``nnjit bench regret`` measures it, to find rules that exclude the best
candidate.
"""

from __future__ import annotations

import hashlib

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.space.registry import space_of


def build_wide_space(
    workload: Workload, device: DeviceProfile, packable: bool, times: int = 10
) -> tuple[AnyCandidate, ...]:
    """The lite space, then others that compile, together ``times`` as many where there are.

    Heuristics 2, 3 and 4 are relaxed (any multiple of 4 columns, any number of
    rows, any block of the reduction, tiles from three tenths to twice the
    registers) and settings vary together. Of more, those whose text has the
    smallest sha256 stay: the same for every run, and no rule's favourites.

    Raises
    ------
    UserError
        When no lite space exists for this kind or dtype.
    """
    space = space_of(workload, device, packable)
    if space.wider is None:
        where = "on a GPU" if device.gpu else "in Wasm"
        raise UserError(
            f"There is no wider space of {workload.name} {where}.",
            "Tiled products and convolutions have one.",
        )
    lite = space.find(space.problem)
    others = set(space.wider(space.problem)) - set(lite)
    mixed = sorted(others, key=lambda c: hashlib.sha256(str(c).encode()).digest())
    return (*lite, *mixed[: (times - 1) * len(lite)])
