"""Find out what 16-bit arithmetic does here: facts, optimizer trials, gradients and the largest batch."""
