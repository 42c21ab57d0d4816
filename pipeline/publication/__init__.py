"""Publish a study: the archive, and what recomputing it gives."""
