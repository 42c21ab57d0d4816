"""Define what params.yaml may contain: study, benchmark, data source, recipe, variant and the user's code."""
