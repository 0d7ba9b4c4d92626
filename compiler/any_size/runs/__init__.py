"""A plan for any size as wasmtime runs it, for the check of its numbers."""
