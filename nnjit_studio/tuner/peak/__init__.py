"""What a kernel cannot pass."""
