"""Claims with their verdicts as the report shows them: source by source, ours apart."""

from typing import Any

from pipeline.report.headlines import verdict_counts
from pipeline.report.results import Results

NUM_LEADING = 3  # claims of a source that the table at the top has, where no claim has a short form


def claims_by_source(results: Results) -> list[dict[str, Any]]:
    """Return the claims of each source with their verdicts, ours apart, and how many there are of each verdict.

    `leading` are those with a short form, or the first ones where none has.
    """
    found = []
    for identifier, source in results.claims.sources.items():
        both = zip(results.claims.claims, results.verdicts, strict=True)
        rows = [(claim, verdict) for claim, verdict in both if claim.source == identifier]
        published = [row for row in rows if row[0].said_by == "source"]
        found.append(
            {
                "source": source,
                "groups": {"source": published, "us": [row for row in rows if row[0].said_by == "us"]},
                "leading": [row for row in published if row[0].short] or (published or rows)[:NUM_LEADING],
                "counts": verdict_counts(results, source=identifier),
            }
        )
    return found
