"""Make one run: build its model under a policy, train, time and evaluate the model, and save checkpoints."""
