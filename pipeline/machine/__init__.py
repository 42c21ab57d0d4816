"""Describe the machine, choose the engine, start processes, and watch memory and the load from other programs."""
