"""Judge a user's own table of runs: read the table, and compare its variants with a baseline as in a study."""
