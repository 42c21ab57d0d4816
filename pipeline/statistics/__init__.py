"""Compute intervals, equivalence and drift from plain numbers, without files."""
