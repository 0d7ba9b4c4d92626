"""The commons: what many devices know of kernels together, without trust in any one of them."""
