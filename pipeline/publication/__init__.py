"""Publish a study: the archive, what recomputing it gives, and the site."""
