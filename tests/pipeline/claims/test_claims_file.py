"""The claims file: every claim has a source and asks something, and all faults are reported at once."""

import functools

import pytest
import yaml
from conftest import REPOSITORY
from studies import composed

from pipeline.claims.claim import DEFAULT, check_variant
from pipeline.claims.claims_file import Claims, load_claims
from pipeline.claims.verdicts import recipe_differences
from pipeline.errors import InputError
from pipeline.study.configuration import validate
from pipeline.study.schema import Study
from pipeline.words.sentences import sentence

CLAIMS = load_claims(REPOSITORY / "claims.yaml")


def test_the_projects_claims_cover_every_source():
    assert {claim.source for claim in CLAIMS.claims} == set(CLAIMS.sources)
    for claim in CLAIMS.all:
        assert bool(claim.asked and sentence(claim.asked)) == (claim.kind != "untested")


WITH_RECIPE = [claim for claim in CLAIMS.all if claim.needs.recipe and claim.kind != "untested"]


@functools.cache
def study_of(profile: str) -> Study:
    return validate(Study, composed(f"profile={profile}"), profile)


@pytest.mark.parametrize("claim", WITH_RECIPE, ids=[claim.id for claim in WITH_RECIPE])
def test_the_profile_named_by_a_claim_has_the_claims_recipe_and_variants(claim):
    """No profile would decide two of the claims."""
    if claim.needs.profile is None:
        assert claim.id in ("s2-small-models-gain-nothing", "s4-custom-loop-accuracy")
        return
    study = study_of(claim.needs.profile)
    assert recipe_differences(claim, study.benchmarks[claim.benchmark].model_dump()) == {}
    of_device = {"paper": "tf32"}.get(claim.needs.profile, "float32")
    for name in (getattr(claim, "baseline", None) or study.comparison.baseline, getattr(claim, "candidate", None)):
        if name:
            check_variant(CLAIMS.variants, study, claim.benchmark, of_device if name == DEFAULT else name)


def faults_of(changes: dict[str, dict]) -> str:
    """Return the faults of the project's claims with these changes. A value of None removes a key."""
    values = yaml.safe_load((REPOSITORY / "claims.yaml").read_text())
    for claim in values["claims"] + values["findings"]:
        claim |= changes.get(claim["id"], {})
        for name in [name for name, value in claim.items() if value is None]:
            del claim[name]
    with pytest.raises(InputError) as caught:
        validate(Claims, values, "claims.yaml")
    return str(caught.value)


def test_all_faults_in_a_claims_file_are_reported_at_once():
    faults = faults_of(
        {
            "s1-test-loss": {"source": "S9"},
            "s1-half-the-size": {"id": "s1-loss-scale-schedule"},
            "s1-adam-fails-in-float16": {"trial": "sgd.float16"},
            "s2-output-is-float32": {"quantities": {"colour.float16": "red"}},
            "s2-trains-equally-well": {"candidate": "mixed_flaot16"},
            "s3-same-accuracy-at-double-batch": {"benchmark": "imagenet"},
            "s4-custom-loop-accuracy": {"needs": {"hardware": "anything", "recipe": {"model.unit": 4096}}},
        }
    )
    assert faults.startswith("claims.yaml: 7 faults")
    for line in (
        "s4-custom-loop-accuracy.recipe: 'model.unit' is unknown. Did you mean 'model.units'?",
        "s1-test-loss.source: 'S9' is unknown. ",
        "'s1-loss-scale-schedule' is given 2 times",
        "s1-adam-fails-in-float16.trial: 'sgd.float16' is unknown. ",
        "s2-output-is-float32.quantities: 'colour.float16' is unknown. ",
        "s2-trains-equally-well.candidate: 'mixed_flaot16' is unknown. Did you mean 'mixed_float16'?",
        "s3-same-accuracy-at-double-batch.benchmark: 'imagenet' is unknown. ",
    ):
        assert line in faults


def test_a_claim_without_a_threshold_is_refused():
    faults = faults_of({"s1-faster-on-16-bit-hardware": {"at_least": None}})
    assert ": s1-faster-on-16-bit-hardware must have exactly one threshold, at_least or at_most." in faults
