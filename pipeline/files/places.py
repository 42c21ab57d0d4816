"""Give the paths of the files in a study's folder that other programs rely on, relative to that folder."""

from pathlib import Path

PARAMS, CLAIMS = Path("params.yaml"), Path("claims.yaml")
RUNS = Path("results/runs.csv")  # a row per run
PAIRS = Path("results/pairs.csv")  # a row per pair of variants
EPOCHS = Path("results/epochs.csv")  # all epochs of all runs, for curves
SPEED = Path("results/speed")  # holds one folder of timed blocks for each benchmark
NUMERICS = Path("results/numerics.json")
VERDICTS = Path("results/verdicts.json")
STATUS = Path("results/status.json")
REPORT = Path("results/report.html")
