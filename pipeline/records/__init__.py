"""Define what training and measuring write and later steps read: records of runs, and blocks of speed."""
