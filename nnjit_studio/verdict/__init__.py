"""The verdict: a model in our engine and in what people ship today, measured in turns."""
