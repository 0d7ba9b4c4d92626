"""Operators whose loops are other ones where sizes stay open: theirs hang on two sizes at once."""
