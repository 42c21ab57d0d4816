"""Turn findings into words: every sentence, with numbers and names as people write them."""
