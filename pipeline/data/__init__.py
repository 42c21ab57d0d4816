"""Prepare data sets and serve them: TFDS to arrays on disk, arrays to seeded batches."""
