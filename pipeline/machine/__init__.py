"""Describe the machine and watch it: hardware, engine, environment, disturbance, memory and processes."""
