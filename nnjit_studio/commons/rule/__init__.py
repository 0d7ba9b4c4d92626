"""The crowd's rule, pure: which settings many reports stand for, and what a device does with it."""
