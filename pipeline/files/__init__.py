"""Read files safely even if others made or damaged them, write files whole, lock them, and digest code."""
