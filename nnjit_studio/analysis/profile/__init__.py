"""Profile of a model: time of each step, the cold start, memory, and findings in words."""
