"""Text for a terminal, safe even where names come from untrusted files."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """The text without characters that steer a terminal, but for those in ``keep``."""
    return "".join(c if c.isprintable() or c in keep else "\ufffd" for c in text)
