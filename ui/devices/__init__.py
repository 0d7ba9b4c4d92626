"""Phones and other computers of the house: the port, the code, the list."""
