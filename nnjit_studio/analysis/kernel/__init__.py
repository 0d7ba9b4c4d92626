"""A kernel from the inside: what the compiler made of a candidate, and why."""
