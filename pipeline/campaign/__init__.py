"""Repeat a study on a cluster: hand out its runs, collect them, and detect drift."""
