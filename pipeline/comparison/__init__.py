"""Compare the finished runs: read their records, pair them by seed, and write two tables."""
