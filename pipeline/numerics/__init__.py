"""Examine 16-bit arithmetic on this machine: facts about it, its effect on gradients, and trials of optimizers."""
