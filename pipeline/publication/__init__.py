"""Pack a study into an archive, recompute results from an archive, and make the pages of published studies."""
