"""Train one run: the policy, the model under it, loops, clock, evaluation and checkpoints."""
