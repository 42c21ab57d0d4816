"""Define the files that training, speed measurements and the numerics stage write, and that later stages read."""
