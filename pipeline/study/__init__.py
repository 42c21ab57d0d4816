"""Define the content of params.yaml: a study, its benchmarks, data sources and variants, and the user's code."""
