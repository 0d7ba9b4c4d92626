"""Many models on many machines: one verb for each, its figures and its kernel records back."""
