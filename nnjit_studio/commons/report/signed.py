"""The one spelling of a report as bytes, and the signature of the device that sends it.

A document has exactly one spelling (keys in order, no spaces). What is read is written again and
must give the same bytes: unknown fields, repeated keys, comments and other numbers have no place.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from nnjit_studio.commons.report.checks import AGAIN, check_report
from nnjit_studio.commons.report.document import Report
from nnjit_studio.errors import CommonsError

MOST_BYTES = 128 * 1024
"""Of one signed report."""
_CONTEXT = b"NNJIT Studio commons, report "
"""Begins what is signed, so that a signature is of nothing else."""


@dataclass(frozen=True)
class SignedReport:
    """A report with the key of its device and the signature, both in hexadecimal digits."""

    report: Report
    key: str
    signature: str

    @property
    def digest(self) -> str:
        """SHA-256 of the whole document, in hexadecimal digits."""
        return hashlib.sha256(encode(self)).hexdigest()


def encode(document: object) -> bytes:
    """The one spelling of a frozen dataclass as JSON."""
    return msgspec.json.encode(document)


def public_key_of(key: Ed25519PrivateKey) -> str:
    """The 64 hexadecimal digits that a device is known by at a server."""
    return key.public_key().public_bytes_raw().hex()


def sign(report: Report, key: Ed25519PrivateKey) -> bytes:
    """The very bytes that travel.

    Raises
    ------
    CommonsError
        When the report says what none may say, or is too large.
    """
    check_report(report)
    public = public_key_of(key)
    signature = key.sign(_CONTEXT + encode(report)).hex()
    data = encode(SignedReport(report, public, signature))
    if len(data) > MOST_BYTES:
        raise CommonsError("The report is too large.", "Send fewer findings at once.")
    return data


def read_signed(data: bytes) -> SignedReport:
    """A report whose every field and signature hold; whether it is timely is not asked here.

    Raises
    ------
    CommonsError
        One sentence that says why it is refused.
    """
    if len(data) > MOST_BYTES:
        raise CommonsError(f"The report has more than {MOST_BYTES} bytes.", AGAIN)
    try:
        signed = msgspec.json.decode(data, type=SignedReport)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise CommonsError("The report is not a document of the known form.", AGAIN) from None
    if encode(signed) != data:
        raise CommonsError("The report is not in its one spelling.", AGAIN)
    check_report(signed.report)
    try:
        if (signed.key, signed.signature) != (signed.key.lower(), signed.signature.lower()):
            raise ValueError
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signed.key))
        key.verify(bytes.fromhex(signed.signature), _CONTEXT + encode(signed.report))
    except (ValueError, InvalidSignature):
        raise CommonsError("The report's signature does not hold.", AGAIN) from None
    return signed
