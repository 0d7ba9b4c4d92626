"""Devices of the house as targets: how they join, what they may do, and how they leave."""
