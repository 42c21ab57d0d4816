"""Build a static site of every published study: the answer, one verdict for every claim, feed and badge."""

import argparse
from pathlib import Path

from pipeline.claims.evidence import read_compiled_evidence
from pipeline.claims.schema import CLAIMS, load_claims
from pipeline.publication.published import read_published
from pipeline.publication.site import build_site, compiled_columns
from pipeline.report.rendering import PROJECT
from pipeline.reproduction.terminal import this_python
from stages import run


def main(arguments: argparse.Namespace) -> None:
    folders = sorted(path for path in arguments.reports.glob("*") if path.is_dir())
    published = [read_published(folder) for folder in folders]
    claims = load_claims(PROJECT / CLAIMS)
    compiled = compiled_columns(*read_compiled_evidence(PROJECT), claims)
    build_site(published, arguments.site, arguments.address, claims, compiled)
    studies = f"{len(published)} published stud{'ies' if len(published) != 1 else 'y'}"
    print(f"{arguments.site / 'index.html'}: {studies}, and what compilers say of {len(compiled)} devices")
    print(
        "their files are those that their archives name; to recompute one: "
        f"{this_python()} -m stages.report --from ARCHIVE"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.site", description=__doc__)
    parser.add_argument("--reports", type=Path, default=Path("docs/reports"), help="a folder of published studies")
    parser.add_argument("--site", type=Path, default=Path("site"), help="where to write")
    parser.add_argument("--address", default="https://example.org", help="where the site will stand, for its feed")
    run(main, parser)
