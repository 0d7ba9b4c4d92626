"""A device's side of the commons: what it would send, what it sent, and what it asks."""

from nnjit_studio.commons.client.findings import findings_of, place_of
from nnjit_studio.commons.client.sharing import Sharing
from nnjit_studio.commons.client.web import ask, send

__all__ = ["Sharing", "ask", "findings_of", "place_of", "send"]
