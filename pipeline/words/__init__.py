"""Write results in words: sentences, and the numbers, names and lists in them."""
