"""Define what training and measuring write, and everything after them reads: records of runs and blocks of speed."""
