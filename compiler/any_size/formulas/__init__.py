"""Formulas for numbers that hang on sizes, from samples of both."""
