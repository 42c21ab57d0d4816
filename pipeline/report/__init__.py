"""Show the results that other packages compute, as figures, sentences and one HTML file."""
