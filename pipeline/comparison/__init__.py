"""Compare finished runs: read their records, pair the runs by seed, and write tables of runs and pairs."""
