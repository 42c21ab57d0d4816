"""Make the pages that GitHub shows: one for each published study, and an overview of all published studies.

A study's page shows the tables of the report's first screen and a figure. The overview shows step time, speed, accuracy
and memory by policy, and the verdicts on each claim.
"""

import hashlib
import zipfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.claims.claims_file import Claims, load_claims
from pipeline.claims.kinds import Claim, accuracy_numbers
from pipeline.comparison.finished_runs import device_in_words
from pipeline.files.places import CLAIMS
from pipeline.publication.archive import ARCHIVE, FIGURE, OVERLAY, PAGE
from pipeline.report.figures import answer_figure
from pipeline.report.first_screen import FURTHER, VariantRow, in_cell, variant_rows
from pipeline.report.names import benchmark_names
from pipeline.report.pages import markdown_environment
from pipeline.report.rendering import PROJECT
from pipeline.report.reporting import contents, is_tested, readable_names
from pipeline.report.results import Results
from pipeline.statistics.circumstances import is_busy
from pipeline.study.policies import POLICIES
from pipeline.study.variant import DEFAULT_POLICY
from pipeline.words.numbers import digits
from pipeline.words.sentences import Said, sentence

SHOWN = [name for name, policy in POLICIES.items() if policy.keeps_float32]
UNDECIDED = ("inconclusive", "open")
_ENGINES = {"keras": "Keras", "tensorflow": "TensorFlow", "jax": "JAX"}


def study_page(results: Results, archive: Path) -> dict[str, str]:
    """Return a study's page (Markdown) and, if there is anything to draw, its figure (SVG), by file name.

    Args:
        archive: the file from which `results` were recomputed. The page names the file and gives the SHA-256.
    """
    values = contents(results)
    with zipfile.ZipFile(archive) as file:
        has_overlay = OVERLAY in file.namelist()
    charts = {each["title"]: each["charts"] for each in values["benchmarks"] if each["charts"]}
    if values["widths"]:
        charts = {"A dense network by its width": values["widths"]}
    page = (
        markdown_environment(readable_names(results))
        .get_template("study.md.j2")
        .render(
            values,
            archive_name=ARCHIVE,
            folder=archive.parent.name,
            sha256=hashlib.sha256(archive.read_bytes()).hexdigest(),
            figure=FIGURE if charts else None,
            overlay=OVERLAY if has_overlay else None,
            own_code=sorted(
                {
                    each.model.source
                    for each in results.study.benchmarks.values()
                    if not each.model.source.startswith("pipeline/")
                }
            ),
            software=list(dict.fromkeys(map(software, results.environments))),
            commits=list(dict.fromkeys(str(each["git_commit"] or "unknown") for each in results.environments)),
            uncommitted=sorted({name for each in results.environments for name in each.get("git_changed", [])}),
        )
    )
    return {PAGE: page} | ({FIGURE: answer_figure(charts)} if charts else {})


def software(environment: Mapping[str, Any]) -> str:
    """Name the engine, Python and any GPU driver, as in "Keras 3.12.0, TensorFlow 2.21.0, Python 3.11.2"."""
    driver = [f"driver {environment['driver']}"] if environment["driver"] else []
    return ", ".join([engine(environment), f"Python {environment['python']}", *driver])


def engine(environment: Mapping[str, Any]) -> str:
    """Name the packages of the engine with their versions, as in "Keras 3.12.0, TensorFlow 2.21.0"."""
    packages = environment["packages"]
    return ", ".join(f"{title} {packages[name]}" for name, title in _ENGINES.items() if name in packages)


class Place(NamedTuple):
    """Hold a row of the overview: one device and batch size of a study, and the lines of each cell by policy."""

    device: str
    is_cpu: bool  # CPUs are sorted after accelerators
    study: str
    batch_size: int
    made_with: str
    ended_on: str
    cells: Mapping[str, Sequence[str]]


class Decision(NamedTuple):
    """Hold a claim, or an experiment of our own if `is_finding`, and the names of the studies that tested it.

    `found` lists the studies that decided the claim, by verdict. `tried` lists the studies that could not decide it.
    """

    claim: Claim
    is_finding: bool
    found: Mapping[str, Sequence[str]]
    tried: Sequence[str]


def index_page(studies: Mapping[str, Results]) -> str:
    """Return the overview in Markdown. `studies` maps the name of each study's folder to the study's results."""
    tables: dict[str, list[Place]] = defaultdict(list)
    for name, results in studies.items():
        for benchmark, title in benchmark_names(results.study).items():
            tables[title] += places(name, results, benchmark)
    for rows in tables.values():
        rows.sort(key=lambda place: (place.is_cpu, place.device, place.study, place.batch_size))
    filled = [title for title, rows in tables.items() if rows]
    filled.sort(key=lambda title: (tables[title][0].is_cpu, title))
    claims = load_claims(PROJECT / CLAIMS)
    names = {name: name for results in studies.values() for name in readable_names(results)}
    decisions = decide(claims, studies)
    return (
        markdown_environment(names)
        .get_template("index.md.j2")
        .render(
            tables={title: tables[title] for title in filled},
            twins=twins(studies),
            policies={name: POLICIES[name].label for name in SHOWN},
            decided=[row for row in decisions if row.found and not row.is_finding],
            findings=[row for row in decisions if row.found and row.is_finding],
            tried=[row for row in decisions if row.tried and not row.found],
            untested=[row for row in decisions if not (row.tried or row.found)],
        )
    )


def places(name: str, results: Results, benchmark: str) -> list[Place]:
    """Return a row of the overview for each batch size at which `benchmark` has a result.

    Leave out variants of the group `FURTHER`, and variants that keep some layers in float32.

    Args:
        name: the name of the study's folder.
    """
    study = results.study
    shown = [row for row in variant_rows(study, results.tables, benchmark) if row.group != FURTHER and row.is_known]
    rows = [row for row in shown if not study.variants[row.name].float32_layers]
    found = []
    for multiplier in sorted({row.batch_multiplier for row in rows}):
        of_batch = {row.policy: row for row in rows if row.batch_multiplier == multiplier}
        found.append(
            Place(
                study=name,
                device="; ".join(dict.fromkeys(map(device_in_words, results.environments))),
                is_cpu=not results.environments[0]["accelerators"],
                batch_size=study.benchmarks[benchmark].batch_size * multiplier,
                made_with="; ".join(dict.fromkeys(map(engine, results.environments))),
                ended_on=results.ended_at[:10],
                cells={key: list(_cell(results, benchmark, of_batch, key)) for key in SHOWN if key in of_batch},
            )
        )
    return found


def _cell(results: Results, benchmark: str, of_batch: Mapping[str, VariantRow], key: str) -> Sequence[str]:
    """Return the lines of a cell: step time, speed, accuracy and memory, without those that are unknown.

    Args:
        of_batch: the rows of one batch size, by policy.
        key: the policy of the cell.
    """
    row = of_batch[key]
    lines = [f"{digits(1000 * row.step_seconds)} ms"] if row.step_seconds else []
    beside = next((name for name in (DEFAULT_POLICY, "float32") if name in of_batch and name != key), None)
    timed = beside and results.tables.pair(benchmark, row.name, of_batch[beside].name)
    if timed and not is_busy(timed.other_cpu_share) and timed.speedup.value and row.step_seconds:
        is_strict = beside == "float32" and results.study.plain(benchmark, DEFAULT_POLICY)
        lines.append(str(in_cell(timed.speedup, ".2f", "×")) + (" float32" if is_strict else ""))
    pair = row.pair
    if pair and row.accuracy is not None and not pair.reason:  # how the accuracy compares with the baseline's
        kind = "difference" if pair.most_loss_pp is None else "loss"
        lines.append(sentence(Said(f"index.{kind}", accuracy_numbers(pair))))
    # The kind "resident_set", in early records, counts the whole process with the interpreter and the engine.
    is_comparable = all(run.memory_kind != "resident_set" for run in results.tables.runs)
    return [*lines, f"{row.cell('memory')} MiB"] if row.peak_bytes.value and is_comparable else lines


def twins(studies: Mapping[str, Results]) -> list[tuple[Sequence[str], int]]:
    """Return each group of studies that have runs with equal final weights, and the number of such weights."""
    holders: dict[str, set[str]] = defaultdict(set)
    for name, results in studies.items():
        for run in results.tables.runs:
            if run.final_weights_sha256:
                holders[run.final_weights_sha256].add(name)
    groups = Counter(tuple(sorted(names)) for names in holders.values() if len(names) > 1)
    return sorted(groups.items())


def decide(claims: Claims, studies: Mapping[str, Results]) -> list[Decision]:
    """Return, for each claim and each of our own experiments, the studies that decided it and those that could not."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, results in studies.items():
        for verdict in filter(is_tested, results.verdicts):
            found[verdict.id][verdict.verdict].append(name)
    return [
        Decision(
            claim=claim,
            is_finding=claim in claims.findings,
            found={verdict: names for verdict, names in found[claim.id].items() if verdict not in UNDECIDED},
            tried=[name for verdict in UNDECIDED for name in found[claim.id].get(verdict, [])],
        )
        for claim in claims.all
    ]
