"""Examine a model for what makes it unfit for 16 bits, with a remedy for each finding."""
