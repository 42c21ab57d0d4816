"""Read files safely even if others made or damaged them, write files whole, hold locks, and compute digests of code."""
