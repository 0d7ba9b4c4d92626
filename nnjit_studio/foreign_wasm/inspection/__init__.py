"""Somebody's Wasm file for a reader: a table of functions, warnings, comparison of two builds."""
