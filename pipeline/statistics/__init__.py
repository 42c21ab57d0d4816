"""Compute intervals, equivalence, speedups and drift from numbers and timed blocks, without reading files."""
