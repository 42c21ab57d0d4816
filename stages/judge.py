"""Judge every published claim by the statistics of this study."""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from pipeline.claims import load_claims
from pipeline.comparison import Comparison
from pipeline.errors import InputError
from pipeline.hardware import hardware_of
from pipeline.judges import Evidence
from pipeline.study import load_study
from pipeline.verdicts import judge
from stages import run

RESULTS = Path("results")


def main(_: argparse.Namespace) -> None:
    def read(name: str) -> Any:
        try:
            return json.loads((RESULTS / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{RESULTS / name} is missing. Make it with: dvc repro") from None

    evidence = Evidence(
        study=load_study(),
        comparison=Comparison.model_validate_json((RESULTS / "comparison.json").read_bytes()),
        numerics=read("numerics.json"),
        ceilings=read("ceilings.json"),
        hardware=hardware_of(read("environments.json")),
    )
    judgements = judge(load_claims(), evidence)
    verdicts = [judgement.model_dump() for judgement in judgements]
    (RESULTS / "verdicts.json").write_text(json.dumps(verdicts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    counts = Counter(judgement.verdict for judgement in judgements)
    print(" · ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))


if __name__ == "__main__":
    run(main, argparse.ArgumentParser(prog="python -m stages.judge", description=__doc__))
