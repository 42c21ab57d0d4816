"""Examine a model, and propose a small study to find out whether mixed precision is worth it."""
