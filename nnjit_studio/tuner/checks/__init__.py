"""What is compared with a reference before anything is built on it."""
