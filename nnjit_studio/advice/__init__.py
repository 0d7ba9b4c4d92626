"""Advice that is measured: other forms of a model, each in turns with the untouched one."""
