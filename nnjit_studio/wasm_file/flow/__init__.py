"""Control flow of function bodies: nests, basic blocks, live locals, vectors."""
