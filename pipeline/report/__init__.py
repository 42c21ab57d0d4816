"""Show what others computed: figures, words and one HTML file."""
