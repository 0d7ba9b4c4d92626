"""Verbs that compare a model with what people ship today."""
