"""The dock of a Wasm file."""
