"""Train one run: its model under a policy, loops, clock, evaluation and checkpoints."""
