"""Find out what 16-bit arithmetic does here: facts, optimizer trials, gradients, and what a step's time goes to."""
