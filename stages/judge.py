"""Judge every published claim by the statistics of this study."""

import argparse
import json
from collections import Counter
from pathlib import Path

from pipeline.claims import load_claims
from pipeline.hardware import hardware_of
from pipeline.judges import Evidence
from pipeline.results import read_comparison, read_json
from pipeline.study import load_study
from pipeline.verdicts import judge
from stages import run

VERDICTS = Path("results/verdicts.json")


def main(_: argparse.Namespace) -> None:
    evidence = Evidence(
        study=load_study(),
        comparison=read_comparison(),
        numerics=read_json("numerics.json"),
        ceilings=read_json("ceilings.json"),
        hardware=hardware_of(read_json("environments.json")),
    )
    judgements = judge(load_claims(), evidence)
    verdicts = [judgement.model_dump() for judgement in judgements]
    VERDICTS.write_text(json.dumps(verdicts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    counts = Counter(judgement.verdict for judgement in judgements)
    print(" · ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.judge", description=__doc__))
