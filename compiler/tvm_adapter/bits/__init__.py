"""Converters of what looks at bits, and of tables over the values of a byte."""
