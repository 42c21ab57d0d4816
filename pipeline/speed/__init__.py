"""Measure speed in short turns of every variant, with intervals."""
