"""Show the results that other rooms compute: in figures, in words and in one HTML file."""
