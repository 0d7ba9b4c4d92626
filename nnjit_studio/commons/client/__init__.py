"""A device's side of the commons: what it would send, what it sent, and what it asks."""
