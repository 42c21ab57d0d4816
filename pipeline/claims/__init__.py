"""Judge what the sources claim: claims as data, a judge for each kind, and the verdicts."""
