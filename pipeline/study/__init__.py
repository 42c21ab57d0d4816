"""Define what params.yaml may say: study, benchmark, data source, recipe, variant and the user's code."""
