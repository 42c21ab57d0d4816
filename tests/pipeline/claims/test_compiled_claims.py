"""Claims that are judged by what compilers say, and by nothing that ran."""

import shutil
from types import SimpleNamespace

import pytest
from conftest import REPOSITORY
from programs import made_up, program

from pipeline.claims.claim import NotTestableError
from pipeline.claims.compiled_claims import KEEPS_MORE, LEANER, MemoryClaim, OutcomeClaim, RoundingClaim
from pipeline.claims.evidence import read_compiled_evidence
from pipeline.compiled.answers import read_compiled
from pipeline.compiled.programs import RECIPES
from pipeline.compiled.schema import COMPILED_FILES
from pipeline.compiled.targets import TARGETS
from pipeline.errors import InputError
from pipeline.study.variant import Variant


def test_claims_are_judged_by_what_was_compiled_by_the_recipes_of_today(tmp_path):
    shutil.copytree(REPOSITORY / COMPILED_FILES, tmp_path / COMPILED_FILES)
    assert read_compiled_evidence(tmp_path) == ([], {})  # nobody knows the recipes
    (tmp_path / RECIPES).parent.mkdir()
    shutil.copy(REPOSITORY / RECIPES, tmp_path / RECIPES)
    compiled, recipes = read_compiled_evidence(tmp_path)
    assert [made.target for made in compiled] == [
        name for name in TARGETS if (REPOSITORY / COMPILED_FILES / f"{name}.json").exists()
    ]
    assert recipes["mnist_dense"]["batch_size"] == 8192
    text = (tmp_path / RECIPES).read_text()
    (tmp_path / RECIPES).write_text(text.replace("batch_size: 8192", "batch_size: 4096"))
    assert read_compiled_evidence(tmp_path)[0] == []
    for damage in ("[]", "benchmarks: 3", "{}", "benchmarks: {a: 1}"):
        (tmp_path / RECIPES).write_text(damage)
        with pytest.raises(InputError, match=r"base\.yaml"):
            read_compiled_evidence(tmp_path)


VARIANTS = {name: Variant(policy=name, batch_multiplier=1) for name in ("float32", "mixed_float16")}


def asked(compiled, model, hardware="anything", benchmark="b", batch_size=16, **fields):
    """Return what the compiled judge of a claim says by these targets."""
    words = {"id": "a", "source": "S", "statement": "It is so.", "needs": {"hardware": hardware}}
    claim = model(**words, benchmark=benchmark, **fields)
    recipes = {benchmark: {"batch_size": batch_size}}
    return claim.judges["compiled"](SimpleNamespace(compiled=compiled, recipes=recipes, variants=VARIANTS))


@pytest.mark.parametrize(
    ("ratios", "verdict", "told"),
    [
        ((0.5, 0.6), "reproduced", "t0: 0.50×; t1: 0.60×"),
        ((0.5, 0.5), "reproduced", "t0 · t1: 0.50×"),
        ((0.7, 0.8), "in direction only", KEEPS_MORE),
        ((1.1,), "not reproduced", KEEPS_MORE),
        ((0.5, 0.7), "in direction only", "on 1 of 2 targets a compiled step takes at most 0.6 times the memory of "),
        ((0.7, 1.1), "inconclusive", "; they differ ("),
    ],
)
def test_claims_on_memory_are_judged_by_all_targets(ratios, verdict, told):
    compiled = [
        made_up(program("float32", 1000), program("mixed_float16", int(1000 * ratio)), title=f"t{index}")
        for index, ratio in enumerate(ratios)
    ]
    found = asked(compiled, MemoryClaim, kind="memory", candidate="mixed_float16", at_most=0.6)
    assert found.verdict == verdict
    assert told in f"{found.reason} {found.measured}"


def test_a_leaner_step_that_fits_decides_nothing_and_one_that_does_not_decides():
    """A source that ran without XLA kept more alive. On a TPU XLA compiled its step, too."""

    def judged(kind, *totals, too_large):
        hardware, target = {"gpu": ("nvidia_gpu", "h100"), "tpu": ("tpu", "tpu-v5e")}[kind]
        made = [made_up(program("float32", total), title=str(total), kind=kind, target=target) for total in totals]
        outcome = "out_of_memory" if too_large else "completed"
        return asked(made, OutcomeClaim, hardware, kind="outcome", candidate="float32", outcome=outcome)

    fits, full = 1400, 1600
    for too_large, when_full in ((True, "reproduced"), (False, "not reproduced")):
        assert judged("gpu", fits, too_large=too_large).verdict == "inconclusive"
        assert judged("gpu", full, too_large=too_large).verdict == when_full
        assert judged("gpu", fits, full, too_large=too_large).verdict == "inconclusive"
        on_tpu = "not reproduced" if too_large else "reproduced"
        assert judged("tpu", fits, too_large=too_large).verdict == on_tpu
    with pytest.raises(NotTestableError):
        asked([made_up()], OutcomeClaim, kind="outcome", candidate="float32", outcome="out_of_memory")
    for totals, too_large, reason in (
        ((fits,), True, f"not known whether strict float32 at batch 16 does not fit: {LEANER} (compiled by XLA"),
        ((full,), True, "strict float32 at batch 16 does not fit (compiled"),
        ((full,), False, "it is not so that strict float32 at batch 16 fits ("),
        ((fits, full), True, "on 1 of 2 targets strict float32 at batch 16 does not fit; they differ ("),
    ):
        assert judged("gpu", *totals, too_large=too_large).reason.startswith(reason)


TPUS = [made for made in read_compiled(REPOSITORY / COMPILED_FILES) if made.kind == "tpu"]


def test_a_tpu_rounds_float32_to_bfloat16():
    """For two of eight products a v6e's program leaves the rounding to the matrix unit, and does not say."""

    def judged(compiled):
        return asked(compiled, RoundingClaim, "tpu", "mnist_dense", 8192, kind="rounding")

    by_target = {made.target: judged([made]) for made in TPUS}
    assert by_target["tpu-v5e"][:3:2] == ("reproduced", "TPU v5e: 8 of 8 products")
    assert by_target["tpu-v6e"][:3:2] == ("in direction only", "TPU v6e: 6 of 8 products")
    unread = [
        TPUS[0].model_copy(update={"programs": [p.model_copy(update={"operations": []}) for p in TPUS[0].programs]})
    ]
    with pytest.raises(NotTestableError):  # none of none proves nothing
        judged(unread)
    together = judged(TPUS)
    assert (together.verdict, "they differ" in together.reason) == ("in direction only", True)
