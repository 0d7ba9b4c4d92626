"""Browsers side by side: their winners, where they differ, and what a common set would cost."""
