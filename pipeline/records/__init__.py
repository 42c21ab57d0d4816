"""Define the files that training and measuring write and later steps read: records of runs, and timed blocks."""
