"""Run `dvc repro` for people: progress, forecast, remedies, and a study for another engine."""
