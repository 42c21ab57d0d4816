"""Judge a table of runs that anyone made: read its columns, and set its variants beside a baseline as a study does."""
