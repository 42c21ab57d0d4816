"""Judge anyone's table of runs: read its columns, and compare its variants with a baseline as in a study."""
