"""Propose a study that shows whether mixed precision is worth it for a model on this machine."""
