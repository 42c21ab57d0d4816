"""Measure speed with intervals, by training every variant in short turns."""
