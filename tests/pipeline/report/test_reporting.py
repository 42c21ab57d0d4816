"""The report from records that need no engine: escaped, self-contained, the same bytes for the same results."""

import json
import re
import subprocess
import sys
from argparse import Namespace

import nbformat
import pytest
import yaml
from conftest import changed, planned_record, small_study, write_small_run, write_speeds

from pipeline.errors import InputError
from pipeline.publication.archive import remake
from pipeline.report.reporting import SECTIONS, SPLIT, parts
from pipeline.report.results import Results, load_results
from pipeline.study.schema import RunKey
from stages import compare, judge, report, summary

REMOTE = re.compile(
    r"""(?:src|href|action|data|poster)\s*=\s*["']?\s*(?:https?:)?//|@import|url\(\s*["']?(?!#)""", re.I
)


@pytest.fixture
def found(rendered) -> Results:
    return load_results(rendered)


def test_the_report_is_one_file_that_loads_nothing(rendered):
    html = (rendered / "results" / "report.html").read_text()
    assert not REMOTE.search(html), REMOTE.search(html)
    assert "default-src 'none'" in html
    assert "<script" not in html
    for text in ("a &lt;b&gt;bold&lt;/b&gt; &amp; daring change", "Wide &amp; mixed is &lt;faster&gt;."):
        assert text in html
    identifiers = re.findall(r'\bid="([^"]+)"', html)
    assert len(identifiers) == len(set(identifiers))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(identifiers)


def test_a_report_of_numerics_without_tensorflow_leaves_out_the_notebooks_split(found):
    lacking = {name: value for name, value in found.numerics["facts"].items() if name != SPLIT}
    told, without = (
        parts(found._replace(numerics=found.numerics | {"facts": facts}))("arithmetic")
        for facts in (found.numerics["facts"], lacking)
    )
    assert ("10,000 validation images" in told, "10,000 validation images" in without) == (True, False)


def test_a_report_without_numerics_has_no_section_on_arithmetic(found):
    assert "<section" not in parts(found._replace(numerics=None))("arithmetic")


def test_the_report_escapes_characters_that_would_reorder_or_hide_text(found):
    environment = found.environments[0] | {
        "cpu": "AMD \u202eCPYE\u202c <9654>\x1b[2J",
        "packages": {"ke\u200bras": "3"},
    }
    text = parts(found._replace(environments=[environment]))("surroundings")
    assert "AMD \\u202eCPYE\\u202c &lt;9654&gt;\\x1b[2J, 2 cores" in text
    assert "ke\\u200bras</code> 3" in text


def test_the_executed_notebook_shows_data_frames_and_charts(rendered):
    """Each benchmark's table is a data frame, there are charts, and the report is one cell of many."""
    text = (rendered / "results" / "report.ipynb").read_text()
    cells = {cell.id: cell for cell in nbformat.reads(text, as_version=4).cells}
    tables = [output.get("data", {}).get("text/html", "") for output in cells["tables"].outputs]
    frames = [html for html in tables if 'class="dataframe"' in html]
    assert len(frames) == len(small_study().benchmarks)
    assert all("float32_2x" in html and "test accuracy" in html for html in frames)
    assert sum("image/png" in output.data for output in cells["figure"].outputs) == len(small_study().benchmarks)
    assert 'class="dataframe"' in cells["claims"].outputs[-1].data["text/html"]
    assert [name for name in cells if "<section " in str(cells[name].get("outputs"))] == ["report"]


def test_the_executed_notebook_can_be_edited_and_run_again(copied):
    """In its own folder, as an editor runs it. The edit prints numbers from the results."""
    path = copied / "results" / "report.ipynb"
    notebook = nbformat.read(path, as_version=4)
    edit = "fast = tables['wide'].query('speed >= 0')\nprint(len(fast), round(runs['test_accuracy'].mean(), 3))"
    place = next(index for index, cell in enumerate(notebook.cells) if cell.id == "tables")
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(edit))
    nbformat.write(notebook, path)
    command = [sys.executable, "-m", "papermill", path.name, path.name]
    subprocess.run(command, cwd=path.parent, check=True, capture_output=True)
    edited = nbformat.read(path, as_version=4).cells[place + 1]
    assert edited.outputs[0].text == f"{len(small_study().variants_of('wide')) - 1} 0.91\n"


def test_the_status_contains_the_advice_and_the_counts_of_runs_and_verdicts(rendered):
    status = json.loads((rendered / "results" / "status.json").read_text())
    assert status["exit_code"] == 0
    assert status["runs"] == {"completed": 18}
    assert sum(status["verdicts"].values()) == 1
    assert status["advice"]["wide"].startswith("Stay with float32: ")


def test_the_summary_shows_a_table_and_why_runs_diverged(copied, monkeypatch, capsys):
    for seed in range(3):
        failed = planned_record(RunKey("wide", "mixed", seed), outcome="diverged", num_epochs=0)
        write_small_run(copied, changed(failed, first_not_finite="the output of attend"))
    remake(copied)
    (copied / "results" / "status.json").unlink()
    monkeypatch.chdir(copied)
    summary.summarise()
    printed = capsys.readouterr().out
    assert "mixed: 3 of 3 runs diverged. First not finite: the output of attend.\n" in printed
    assert re.search(r"\nvariant +test accuracy, % +step, ms +speed +memory, MiB\nfloat32 +91.00 ", printed)


def test_a_study_with_many_failures_still_renders(copied, monkeypatch, capsys):
    """Runs and speeds that ran out of memory, and times that do not count."""
    for seed in range(3):
        key = RunKey("wide", "mixed_2x", seed)
        failed = planned_record(key, outcome="out_of_memory", num_epochs=0)
        write_small_run(copied, failed)
    write_speeds(copied, small_study(), failed={"mixed_2x": "out_of_memory"})
    key = RunKey("wide", "mixed", 1)
    write_small_run(copied, planned_record(key, times={"fault": "1 other process on its GPU"}), 9.0, 1.5)

    monkeypatch.chdir(copied)
    compare.main(Namespace())
    assert "don't count (1 other process on its GPU)" in capsys.readouterr().out
    judge.main(Namespace())
    html = re.sub("</?code>", "", "".join(map(parts(load_results()), SECTIONS)))  # around the names
    html = html.replace("\N{NO-BREAK SPACE}", " ")
    for text in (
        "3 out of memory",
        "0 of 3",
        "3 of 3 runs ran out of memory.",
        "1 of 3: 1 other process on its GPU",
        "Other work took 2 % of the CPU time.",
    ):
        assert text in html


def test_a_report_without_a_completed_run_says_so_and_draws_no_empty_chart(copied):
    for key in small_study().runs():
        failed = planned_record(key, outcome="diverged", num_epochs=0)
        write_small_run(copied, failed)
    (copied / "results" / "epochs.csv").unlink()
    remake(copied)
    html = "".join(map(parts(load_results(copied)), SECTIONS))
    assert "No run completed" in html
    assert 'aria-label="Validation accuracy' not in html
    assert 'aria-label="Training time' in html  # which no run is needed for


def test_results_of_another_study_are_refused(copied, monkeypatch):
    (copied / "params.yaml").write_text(yaml.safe_dump(small_study(seeds=[0, 1]).model_dump(mode="json")))
    monkeypatch.chdir(copied)
    with pytest.raises(InputError, match=r"runs\.csv belongs to a different study .* Run: dvc repro"):
        report.main(Namespace(archive=None))


def test_a_study_is_finished_when_its_last_run_or_launch_ends(found):
    assert found.ended_at == "2026-01-01T00:00:12+00:00"
    found = found._replace(ended_at="2026-02-01T00:00:50+00:00")
    assert " · 1 February 2026 · 18 runs" in parts(found)("answer")
