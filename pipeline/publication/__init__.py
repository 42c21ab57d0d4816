"""Publish a study: pack its archive, recompute its results from an archive, and write pages."""
