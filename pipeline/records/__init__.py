"""Define the record of a run: the one file that training writes and everything after it reads."""
