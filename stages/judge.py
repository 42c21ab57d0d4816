"""Judge every published claim by the statistics of this study."""

import argparse
import json
from collections import Counter
from pathlib import Path

from pipeline.claims import load_claims
from pipeline.comparison import Comparison
from pipeline.hardware import hardware_of
from pipeline.verdicts import judge
from stages import run

RESULTS = Path("results")


def main(_: argparse.Namespace) -> None:
    comparison = Comparison.model_validate_json((RESULTS / "comparison.json").read_bytes())
    environments = json.loads((RESULTS / "environments.json").read_text(encoding="utf-8"))
    judgements = judge(load_claims(), comparison, hardware_of(environments))
    verdicts = [judgement.model_dump() for judgement in judgements]
    (RESULTS / "verdicts.json").write_text(json.dumps(verdicts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    counts = Counter(judgement.verdict for judgement in judgements)
    print(" · ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.judge", description=__doc__))
