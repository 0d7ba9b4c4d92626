"""A Llama-shaped decoder as a list of fused dispatches: five a layer, one token a list."""
