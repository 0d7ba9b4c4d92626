"""Devices of the house on the command line."""
