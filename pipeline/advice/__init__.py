"""Advise whether mixed precision is worth it for a model on this machine, and propose a study that would show it."""
