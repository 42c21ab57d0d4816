"""Find out what 16-bit arithmetic does here: facts, optimizer trials and gradients."""
