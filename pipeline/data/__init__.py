"""Prepare data sets as arrays on disk, and serve the arrays in seeded batches."""
