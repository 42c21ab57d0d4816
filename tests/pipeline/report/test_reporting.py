"""The report from records that need no engine: escaped, self-contained, the same bytes for the same results."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import nbformat
import pytest
import yaml
from conftest import REPOSITORY, planned_record, small_study, write_small_run, write_speeds

from pipeline.comparison.comparing import METRICS
from pipeline.errors import InputError
from pipeline.files.characters import escape_deceptive
from pipeline.publication.recomputing import remake
from pipeline.report import figures, reporting, results
from pipeline.report.answers import AnswerRow, answers
from pipeline.report.rendering import execute
from pipeline.report.rendering import render as render_report
from pipeline.study.schema import RunKey
from stages import compare, judge, plan, report, summary

REMOTE = re.compile(
    r"""(?:src|href|action|data|poster)\s*=\s*["']?\s*(?:https?:)?//|@import|url\(\s*["']?(?!#)""", re.I
)


@pytest.fixture
def copied(rendered, tmp_path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(rendered, tmp_path / "copy", symlinks=True))


def test_the_report_is_one_file_that_loads_nothing(rendered):
    html = (rendered / "results" / "report.html").read_text()
    assert not REMOTE.search(html), REMOTE.search(html)
    assert "default-src 'none'" in html
    assert html.count("<script") == 1  # our own, which the policy admits by its digest
    script = html[html.index("<script>") + len("<script>") : html.index("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html
    assert "&lt;script&gt;alert(2)" in html
    assert "a &lt;b&gt;bold&lt;/b&gt; &amp; daring change" in html
    assert "Wide &amp; mixed is &lt;faster&gt;." in html
    for text in (
        "wide",
        "narrow",
        "mixed_bfloat16, batch doubled",
        "1 published claim of 1 source.",
        "Measured: 1 (1 ",
        "<b>Asked here</b> the speed of ",
        "<b>Threshold</b> at 1× or above",
        "Every claim",
        "MNIST from this repository at 8 × 8",
        "Environment",
        "Example CPU",
        "make repro",
        "This machine is a",
        "requirements/cpu.txt",
    ):
        assert text in html
    identifiers = re.findall(r'\bid="([^"]+)"', html)
    assert len(identifiers) == len(set(identifiers))


def test_the_report_shows_what_would_turn_or_hide_its_words(rendered):
    found = results.load_results(rendered)
    environment = found.environments[0] | {
        "cpu": "AMD \u202eCPYE\u202c <9654>\x1b[2J",
        "packages": {"ke\u200bras": "3"},
    }
    text = reporting.parts(found._replace(environments=[environment]))("surroundings")
    assert "AMD \\u202eCPYE\\u202c &lt;9654&gt;\\u001b[2J, 2 cores" in text
    assert "ke\\u200bras</code> 3" in text
    assert text == escape_deceptive(text)


def test_every_link_within_the_report_leads_somewhere(rendered):
    html = (rendered / "results" / "report.html").read_text()
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(re.findall(r'\bid="([^"]+)"', html))


def test_the_executed_notebook_is_there_to_explore_and_the_same_again(rendered):
    """Each benchmark's table is a data frame, there are charts, and the report is one cell of many."""
    text = (rendered / "results" / "report.ipynb").read_text()
    cells = {cell.id: cell for cell in nbformat.reads(text, as_version=4).cells}
    tables = [output.data for output in cells["tables"].outputs if "text/html" in output.get("data", {})]
    frames = [data["text/html"] for data in tables if 'class="dataframe"' in data["text/html"]]
    assert len(frames) == len(small_study().benchmarks)
    for html in frames:
        assert "float32_2x" in html
        assert "test accuracy, %" in html
    assert sum("image/png" in output.data for output in cells["figure"].outputs) == len(small_study().benchmarks)
    assert 'class="dataframe"' in cells["claims"].outputs[-1].data["text/html"]
    assert [name for name in cells if "<section " in str(cells[name].get("outputs"))] == ["report"]
    again = execute(rendered)
    assert [cell.get("outputs") for cell in again.cells] == [cell.get("outputs") for cell in cells.values()]
    assert render_report(again) == (rendered / "results" / "report.html").read_text()


def test_the_executed_notebook_is_edited_and_run_again(copied):
    """From the folder where it lies, as an editor runs it; what an edit prints is a number of the results."""
    path = copied / "results" / "report.ipynb"
    notebook = nbformat.read(path, as_version=4)
    edit = "fast = tables['wide'].query('speed >= 0')\nprint(len(fast), round(runs['final_test_accuracy'].mean(), 3))"
    place = next(index for index, cell in enumerate(notebook.cells) if cell.id == "tables")
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(edit))
    nbformat.write(notebook, path)
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", path.name]
    subprocess.run(command, cwd=path.parent, check=True, capture_output=True)
    edited = nbformat.read(path, as_version=4).cells[place + 1]
    num_variants = len(small_study().variants_of("wide"))
    assert edited.outputs[0].text == f"{num_variants} 0.91\n"


def test_the_status_has_the_advice_and_the_counts(copied, monkeypatch, capsys):
    status = json.loads((copied / "results" / "status.json").read_text())
    assert status["exit_code"] == 0
    assert status["runs"] == {"completed": 18}
    assert sum(status["verdicts"].values()) == 1
    assert status["advice"]["wide"].startswith("Stay with float32 until more is known. mixed trains at 1.00× ")
    monkeypatch.chdir(copied)
    summary.summarise()
    lines = capsys.readouterr().out.splitlines()
    assert "claims: 1 measured" in lines
    assert lines[-1] == f"report: {copied / 'results' / 'report.html'}"


def test_a_study_in_which_much_went_wrong_still_renders(copied, monkeypatch, capsys):
    """Runs out of memory, times that do not count, and batches that were measured all the same."""
    for seed in range(3):
        key = RunKey("wide", "mixed_2x", seed)
        failed = planned_record(
            key, outcome="out_of_memory", num_epochs=0, final_test_accuracy=None, steady_epoch_seconds=None
        )
        write_small_run(copied, failed)
    study = small_study()
    settings = study.comparison.model_copy(update={"max_other_cpu_share": 0.25})
    study = study.model_copy(update={"comparison": settings})
    (copied / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    write_speeds(copied, study, failed={"mixed_2x": "out_of_memory"})
    blocks = copied / "results" / "speed" / "wide.csv"
    blocks.write_text(blocks.read_text().replace(",0.02,", ",0.5,"))
    key = RunKey("wide", "mixed", 1)
    write_small_run(copied, planned_record(key, timing_fault="1 other process on its GPU"), 9.0, 1.5)
    largest = {"wide": {"float32": 1024, "mixed_float16": 2000}}
    (copied / "results" / "ceilings.json").write_text(json.dumps({"schema_version": 1, "largest_batch": largest}))

    monkeypatch.chdir(copied)
    compare.main(Namespace())
    assert "runs are left out (runs/wide/mixed/seed-1: 1 other process on its GPU)" in capsys.readouterr().out
    judge.main(Namespace())
    part = reporting.parts(results.load_results())
    html = re.sub("</?code>", "", "".join(map(part, reporting.SECTIONS)))  # around the names
    for text in (
        "3 ran out of memory",
        "0 of 3",
        "mixed_bfloat16 (batch doubled) ran out of memory at 3 seeds",
        "seed 1: 1 other process on its GPU",
        "no interval",
        "<td>2,000</td>",
        "Other work took 2 % of the CPU time. ",
        "Other work took 50 % of the CPU time, <strong>more than the 25 % that the study allows",
    ):
        assert text in html
    assert "a CPU has no memory of its own" not in html


def test_a_study_without_a_completed_run_says_so_and_draws_no_empty_chart(copied):
    for key in small_study().runs():
        failed = planned_record(key, outcome="diverged", num_epochs=0, final_test_accuracy=None)
        write_small_run(copied, failed)
    (copied / "results" / "epochs.csv").unlink()
    remake(copied)
    html = render_report(execute(copied))
    assert "No run completed: there is nothing to compare." in html
    assert html.count("<svg ") == 2  # the gradients, which no run is needed for
    assert "mixed diverged" not in html  # the baseline failed as well


def test_numbers_for_dvc_metrics_are_those_of_the_mixed_policy(rendered):
    found = {name: json.loads((rendered / "results" / f"{name}.json").read_text()) for name in METRICS}
    assert found["test_accuracy"] == pytest.approx({"wide": 0.91})  # narrow has none
    assert found["speedup"]["wide"] == pytest.approx(1.0)
    assert found["turn_epoch_seconds"]["wide"] > 0


def test_a_removed_seed_is_not_in_the_results(copied):
    study = small_study(seeds=[0, 1])
    (copied / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    remake(copied)
    assert ",2,first," not in (copied / "results" / "runs.csv").read_text()


def test_results_of_another_study_are_refused(copied, monkeypatch):
    study = small_study(seeds=[0, 1])
    (copied / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    monkeypatch.chdir(copied)
    for stage in (judge, report, plan):
        with pytest.raises(
            InputError, match=r"comparison\.json is of another study than params\.yaml\. Run: dvc repro"
        ):
            stage.main(Namespace(archive=None))


def test_missing_results_say_how_to_make_them(tmp_path):
    (tmp_path / "params.yaml").write_text((REPOSITORY / "params.yaml").read_text())
    (tmp_path / "claims.yaml").write_text((REPOSITORY / "claims.yaml").read_text())
    with pytest.raises(InputError, match=r"comparison\.json is missing\. Make it with: dvc repro"):
        results.load_results(tmp_path)


def test_what_few_seeds_can_tell_is_said_of_each_benchmark(rendered):
    found = results.load_results(rendered)
    study = found.study.model_copy(update={"num_seeds": {"narrow": 1}})
    text = reporting.parts(found._replace(study=study))("method")
    wide, narrow = "MNIST, dense network of 16 units", "MNIST, dense network of 8 units"
    assert f"{wide}: 3 seeds, and intervals as wide as that makes them. " in text
    assert f"{narrow}: 1 seed gives no interval of accuracy." in text
    study = found.study.model_copy(update={"num_seeds_by_variant": {"wide": {"mixed": 2}}})
    assert "; some variants the first 2." in reporting.parts(found._replace(study=study))("measurements")


def test_a_recipe_that_was_chosen_on_the_test_set_is_told_of(rendered):
    found = results.load_results(rendered)
    told = "the recipe was chosen by accuracies on the test set"
    assert told not in reporting.parts(found)("method")
    chosen = found.study.model_copy(update={"recipe_chosen_on": {"wide": "test", "narrow": "source"}})
    assert reporting.parts(found._replace(study=chosen))("method").count(told) == 1


def test_a_baseline_whose_seeds_end_far_apart_is_told_of(rendered):
    found = results.load_results(rendered)
    assert "from seed to seed" not in reporting.parts(found)("method")
    runs = [run | {"final_test_accuracy": 0.7 + 0.1 * run["seed"]} for run in found.runs]
    text = reporting.parts(found._replace(runs=runs))("method")
    assert "float32 itself ends at 70.0 to 90.0 %, from seed to seed." in text


def test_an_accuracy_that_cannot_be_judged_leads_to_the_study_that_judges_it(written_out):
    found = results.load_results(written_out)
    near = [
        each.model_copy(update={"test_accuracy": each.test_accuracy.model_copy(update={"mean": 0.05})})
        for each in found.comparison.variants
    ]
    found = found._replace(comparison=found.comparison.model_copy(update={"variants": near}))
    text = reporting.parts(found)("answer")
    assert "not answered by this study" in text
    (study,) = re.findall(r"<code>(docs/reports/[^<]+)</code>", text)
    assert (REPOSITORY / study).is_file()


def test_speeds_of_one_process_after_the_other_say_so(rendered):
    found = results.load_results(rendered)
    assert "ran one after the other" not in reporting.parts(found)("measurements")
    turns = [each.model_copy(update={"side_by_side": False}) for each in found.comparison.turns]
    after_each_other = found.comparison.model_copy(update={"turns": turns})
    text = reporting.parts(found._replace(comparison=after_each_other))("measurements")
    assert text.count("ran one after the other") == len(turns)


def test_a_run_that_was_resumed_is_told_of(rendered):
    found = results.load_results(rendered)
    resumed = [run | {"resumed": number == 0} for number, run in enumerate(found.runs)]
    assert "1 of 18 runs was interrupted and resumed." in reporting.parts(found._replace(runs=resumed))("method")
    assert "interrupted and resumed" not in reporting.parts(found)("method")


def test_steps_that_the_loss_scale_skips_are_counted(rendered):
    found = results.load_results(rendered)
    runs = [run | {"loss_scale": "dynamic", "skipped_steps": run["seed"]} for run in found.runs]
    assert "<td>0 to 2 a run</td>" in reporting.parts(found._replace(runs=runs))("measurements")
    assert "a run</td>" not in reporting.parts(found)("measurements")


def test_the_arithmetic_is_in_the_report(rendered):
    html = (rendered / "results" / "report.html").read_text()
    for text in ("10 % of the activation gradients", "1 of 2 seeds", "epsilon 0.001", "a CPU has no memory of its own"):
        assert text in html


def test_what_a_benchmark_is_called_is_no_markup():
    with_tag = figures.draw_svg('x"><h1>\\q', "a chart", lambda axes: axes.plot([1, 2]))
    assert "<h1>" not in with_tag


def test_numbers_of_a_benchmark_that_the_study_does_not_have_are_refused(copied):
    path = copied / "results" / "numerics.json"
    found = json.loads(path.read_text())
    found["gradients"] |= {"evil": next(iter(found["gradients"].values()))}
    path.write_text(json.dumps(found))
    with pytest.raises(InputError, match=r"numerics.json .*params.yaml has no benchmark 'evil'"):
        results.load_results(copied)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda found: found["trials"][0].update(num_trained=7, num_trials=6), "7 of 6 trials"),
        (lambda found: found["gradients"]["wide"]["counts"].pop(), "exponents and"),
        (lambda found: found["models"]["wide"]["sizes"].pop("float16"), "it has no models.wide.sizes.float16"),
        (lambda found: found["models"]["wide"]["narrow_layers"].pop("8"), "it has no models.wide.narrow_layers.8"),
    ],
)
def test_numbers_that_contradict_themselves_are_refused(copied, damage, words):
    path = copied / "results" / "numerics.json"
    found = json.loads(path.read_text())
    damage(found)
    path.write_text(json.dumps(found))
    with pytest.raises(InputError, match=words):
        results.load_results(copied)


def test_a_study_is_finished_when_its_last_run_ends(rendered):
    found = results.load_results(rendered)
    runs = [run | {"started_at": "2026-01-31T23:59:50+00:00", "run_seconds": 60.0} for run in found.runs]
    assert results.ended_at(found._replace(runs=runs)) == "2026-02-01T00:00:50+00:00"


def row(rendered, words="float32", difference=None) -> AnswerRow:
    """A candidate of the small study, with these words and this difference: mean and both ends."""
    found = answers(results.load_results(rendered), "wide")[1]
    if difference:
        mean, low, high = difference
        values = {"mean": mean, "low95": low, "high95": high}
        values = {"accuracy_difference_pp": found.pair.accuracy_difference_pp.model_copy(update=values)}
        values["equivalence"] = found.pair.equivalence.model_copy(update={"margin_pp": 0.2})
        found = found._replace(pair=found.pair.model_copy(update=values))
    return found._replace(words=words)


def test_a_chart_repeats_and_escapes_its_labels(rendered):
    rows = [row(rendered, "<b>&</b>")]
    first, again = (figures.answer_charts("x", "X", rows, {})[0] for _ in range(2))
    assert first == again
    assert "<b>" not in first
    assert 'role="img"' in first
    assert "currentColor" in first


@pytest.mark.parametrize(("farthest", "squeezed"), [(-9.8, True), (-1.2, False)])
def test_the_margin_can_be_seen_beside_large_differences(rendered, farthest, squeezed):
    """The band takes a tenth of the width or more; what a figure squeezes, it says."""
    rows = [row(rendered, "far", (-1.0, farthest, -0.8)), row(rendered, "near", (0.0, -0.1, 0.1))]
    svg = figures.answer_charts("x", "X", rows, {})[-1]
    assert ("logarithmic beyond ±0.4" in svg) == squeezed
    bands = re.findall(r'd="M ([\d.]+) [\d.]+ \nL ([\d.]+) [^"]*" clip-path="[^"]*" style="fill: #009e73', svg)
    assert len(bands) == len(rows)
    assert all(float(right) - float(left) > 0.1 * 72 * figures.WIDTH for left, right in bands)


def test_a_row_without_values_leaves_its_place_empty(rendered):
    known = row(rendered)
    empty = known._replace(words="nothing", found=known.found.model_copy(update={"turn_epoch_seconds": None}))
    assert "nothing" in figures.answer_charts("x", "X", [known, empty], {})[0]
