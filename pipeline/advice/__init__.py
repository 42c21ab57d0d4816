"""Compose a small study that shows whether mixed precision is worth it for a model, in a folder of its own."""
