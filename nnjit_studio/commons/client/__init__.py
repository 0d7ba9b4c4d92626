"""A device's side of the commons: what it would send, what it sent, and what it asks."""

from nnjit_studio.commons.client.consent import CONSENT, Offer, accept, offer, user_sharing
from nnjit_studio.commons.client.findings import findings_of, place_of
from nnjit_studio.commons.client.maps import Common, Elsewhere, ask_map, common_of
from nnjit_studio.commons.client.sharing import Sharing
from nnjit_studio.commons.client.web import Believed, Told, ask, ask_all, send

__all__ = [
    "CONSENT",
    "Believed",
    "Common",
    "Elsewhere",
    "Offer",
    "Sharing",
    "Told",
    "accept",
    "ask",
    "ask_all",
    "ask_map",
    "common_of",
    "findings_of",
    "offer",
    "place_of",
    "send",
    "user_sharing",
]
