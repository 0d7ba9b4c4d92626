"""Sizes, values and files for a model's inputs, guessed from its file or given by its user."""
