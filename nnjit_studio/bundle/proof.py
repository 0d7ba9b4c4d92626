"""What a verified bundle proves, and what it does not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from nnjit_studio import __version__
from nnjit_studio.bundle.keys import remembered
from nnjit_studio.bundle.reader import VerifyReport
from nnjit_studio.errors import BundleError

_RESULTS = "that the kernels compute the model, and how fast; run it against the model"


@dataclass(frozen=True)
class Proof:
    """``open`` is what was not proved; ``key`` the signer's, empty without one."""

    sha256: str
    key: str
    proved: tuple[str, ...]
    open: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        return data | {"not_proved": data.pop("open")}


def prove(report: VerifyReport, wanted: str = "") -> Proof:
    """What a whole bundle proves, with its signer remembered at first use.

    Parameters
    ----------
    wanted
        The only key that will do; empty for any or none.

    Raises
    ------
    BundleError
        When the signer is not the wanted one or not the one of before, or when the engine is
        not this program's and nobody who is known vouches for it.
    """
    assert report.seal is not None  # of a bundle that is whole
    seal, known, since = report.seal, bool(wanted), ""
    if wanted and seal.key != wanted:
        raise BundleError(
            f"The bundle is {f'signed with {seal.key}' if seal.key else 'not signed'}, not with "
            f"{wanted}.",
            "Get it again from its maker.",
        )
    if not wanted:
        since = remembered(report.name, seal.key)
        known = bool(since)
    if report.foreign and not known:
        raise BundleError(
            f"The bundle's engine is not that of NNJIT Studio {__version__}: "
            f"{', '.join(report.foreign[:3])}{' ...' if len(report.foreign) > 3 else ''}.",
            "Verify it with the version that wrote it, or name its signer with --key.",
        )
    proved = [f"every byte is as it was sealed, sha256 {seal.sha256}"]
    left = [_RESULTS]
    if report.foreign:
        left.append(f"what its engine does: it is not that of NNJIT Studio {__version__}")
    else:
        proved.append(f"its engine is that of NNJIT Studio {__version__}")
    if not seal.key:
        left.append("who made it: it is not signed, and anybody can seal a bundle")
    elif known:
        before = f", as since {since}" if since else ", as you demanded"
        proved.append(f"it was signed with {seal.key}{before}")
    else:
        proved.append(f"it was signed with {seal.key}, which is remembered from now on")
        left.append("whose key that is: compare it with what its maker says")
    return Proof(seal.sha256, seal.key, tuple(proved), tuple(left))
