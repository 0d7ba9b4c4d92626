"""Search: cost model, search strategy, task scheduler, and the records of earlier sessions."""
