"""Judge the claims in claims.yaml, which come from papers, guides and notebooks, by the results of a study."""
