"""Compile training steps for hardware that is not here, and read off the programs what they use."""
