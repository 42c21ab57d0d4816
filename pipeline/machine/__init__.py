"""Describe the machine and watch it: hardware, environment, disturbance, locks and the end of a job."""
