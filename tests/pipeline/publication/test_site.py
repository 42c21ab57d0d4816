"""The site of published studies: complete, escaped, quick, and without a request elsewhere."""

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from archives import PLACES
from conftest import REPOSITORY
from markupsafe import escape
from published_studies import CLAIMS, seal, write_published, write_verdicts

from pipeline.claims.evidence import read_compiled_evidence
from pipeline.errors import InputError
from pipeline.files.characters import escape_deceptive
from pipeline.publication.published import FILES, read_published
from pipeline.publication.site import Cell, Column, build_site, compiled_columns, one_verdict

ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(scope="session")
def three_studies(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("three-studies")
    for index in (1, 2, 3):
        write_published(folder / f"study-{index}", f"2026-0{index}", f"2026-0{index}-01T00:00:00+00:00")
    return folder


@pytest.fixture
def reports(tmp_path, three_studies) -> list[Path]:
    """Copies, for the test to change, and not in the order of their dates."""
    shutil.copytree(three_studies, tmp_path / "reports")
    return [tmp_path / "reports" / f"study-{index}" for index in (2, 1, 3)]


@pytest.fixture(scope="module")
def site(three_studies, made_once) -> Path:
    """The site of the three studies, given in another order than that of their dates; for tests that only read."""
    folders = [three_studies / f"study-{index}" for index in (2, 1, 3)]
    published = [read_published(folder) for folder in folders]
    return made_once("site", lambda folder: build_site(published, folder, "https://example.org/mixed/", CLAIMS))


def test_a_site_shows_what_would_turn_its_words(reports, tmp_path):
    status = json.loads((reports[2] / "status.json").read_text())
    status |= {"device": "TPC\u202e", "advice": {"wide": "Stay\u2066 calm."}}
    (reports[2] / "status.json").write_text(json.dumps(status))
    seal(reports[2])
    build_site([read_published(folder) for folder in reports], tmp_path / "site", "https://example.org/mixed/", CLAIMS)
    for name in ("index.html", "feed.xml"):
        text = (tmp_path / "site" / name).read_text()
        assert "Stay\\u2066 calm." in text
        assert text == escape_deceptive(text)


def test_a_site_lists_every_study_latest_first(site):
    index = (site / "index.html").read_text()
    assert re.findall(r'<th scope="row"><a href="([^"]+)"', index) == [f"study-{n}/report.html" for n in (3, 2, 1)]
    assert "Stay &lt;b&gt;calm&lt;/b&gt;." in index
    assert "<script" not in index
    for link in re.findall(r'href="([^"#]+)"', index):
        assert (site / link).is_file(), link
    for number in (1, 2, 3):
        assert {path.name for path in (site / f"study-{number}").iterdir()} == set(FILES)


def judged(folder: Path, **verdicts: str) -> Path:
    """The study with these verdicts, by claim, each measured."""
    some = json.loads((folder / "verdicts.json").read_text())["judgements"][0]
    listed = [
        some | {"id": name.replace("_", "-"), "verdict": verdict, "evidence": "measured", "measured": "1.5×"}
        for name, verdict in verdicts.items()
    ]
    write_verdicts(folder, listed)
    return seal(folder)


def test_every_claim_is_a_row_that_leads_to_what_each_study_found(reports, tmp_path):
    judged(reports[0], s1_half_the_size="reproduced", a="inconclusive")
    judged(reports[1], s1_half_the_size="not reproduced")
    build_site([read_published(folder) for folder in reports], tmp_path / "site", "https://example.org", CLAIMS)
    (page,) = tables(tmp_path / "site/index.html", "verdicts")
    rows = {row[0][0].get("href"): row[1:] for row in page.iterfind("tbody/tr") if row.get("data-evidence")}
    assert list(rows) == [f"claims/{name}.html" for name in ("s1-half-the-size", "a", "b")]
    told = ["".join(cell.itertext()) for cell in rows["claims/s1-half-the-size.html"]]
    assert told == ["reproduced", "1.5×", "measured by study-2"]
    (page,) = tables(tmp_path / "site/claims/s1-half-the-size.html", "cards")
    found = [(row.find(".//a").get("href"), "".join(row[3].itertext())) for row in page.iterfind("tbody/tr")]
    place = "report.html#claim-s1-half-the-size"  # study-3 was not asked
    assert found == [(f"../study-2/{place}", "reproduced"), (f"../study-1/{place}", "not reproduced")]


def tables(path: Path, of_class: str) -> list[ElementTree.Element]:
    found = re.findall(f'<table class="{of_class}.*?</table>', path.read_text(), re.DOTALL)
    return [ElementTree.fromstring(table) for table in found]


def judged_by(name: str, verdict: str, evidence: str = "measured", device: str = "CPU") -> tuple[Column, Cell]:
    """What a study of its own profile found of a claim."""
    return Column(name, device, "", name, "", {}), Cell(verdict, evidence, f"what {name} found", "")


@pytest.mark.parametrize(
    ("a", "b", "verdict", "told", "because"),
    [
        ("reproduced", "reproduced", "reproduced", "what a found", "by a and b"),
        ("inconclusive", "inconclusive", "inconclusive", "what a found", "by a and b"),
        ("inconclusive", "reproduced", "reproduced", "what b found", "by b; left open by a"),
        ("open", "not found", "not found", "what b found", "by b; left open by a"),
        ("found", "not found", "open", "studies disagree: found by a and not found by b", ""),
        ("in direction only", "not reproduced", "inconclusive",
         "studies disagree: in direction only by a and not reproduced by b", ""),
        (("reproduced", "compiled"), "not reproduced", "not reproduced", "what b found", "by b"),
        (("reproduced", "counted"), "inconclusive", "inconclusive", "what b found", "by b"),
        (("not this recipe", "none"), "reproduced", "reproduced", "what b found", "by b"),
        (("not testable here", "none"), ("not testable here", "none"), "not testable here", "what a found", ""),
    ],
)  # fmt: skip
def test_a_claim_has_one_verdict_over_all_studies(a, b, verdict, told, because):
    found = [judged_by(name, *([said] if isinstance(said, str) else said)) for name, said in (("a", a), ("b", b))]
    evidence = "measured" if because or told.startswith("studies") else "none"
    assert one_verdict(found) == (verdict, evidence, told, because)


def test_many_studies_are_counted():
    assert one_verdict([judged_by(name, "reproduced") for name in "abc"])[3] == "by 3 studies"


def test_of_campaigns_of_a_profile_on_a_device_the_latest_counts():
    earlier, later = judged_by("c", "not reproduced"), judged_by("c", "reproduced")
    assert one_verdict([later, earlier]) == ("reproduced", "measured", "what c found", "by c")
    elsewhere = judged_by("c", "not reproduced", device="H200")
    assert one_verdict([later, elsewhere])[0] == "inconclusive"


def test_the_first_screen_has_the_answer_of_the_longest_study(reports, tmp_path):
    studies = [read_published(folder) for folder in reports]
    (wide,) = (each for each in studies[1].comparison.variants if (each.benchmark, each.variant) == ("wide", "mixed"))
    more = wide.model_copy(update={"completed": wide.completed.model_copy(update={"count": 9})})
    others = [each for each in studies[1].comparison.variants if each is not wide]
    longer = studies[1].comparison.model_copy(update={"variants": [*others, more]})
    studies[1] = studies[1]._replace(comparison=longer)  # study-1, the earliest
    build_site(studies, tmp_path / "site", "https://example.org", CLAIMS)
    first = (tmp_path / "site/index.html").read_text().split('<h2 id="claims">')[0]
    assert 'href="study-1/report.html"' in first
    assert "Stay &lt;b&gt;calm&lt;/b&gt;." in first
    assert first.count('<table class="results">') == len(studies[1].study.benchmarks)
    assert "epoch time" in first


def test_every_target_has_a_page_of_what_its_compiler_decides_and_nothing_else(reports, tmp_path):
    made, recipes = read_compiled_evidence(REPOSITORY)
    compiled = {each.target: each for each in made}
    pages = compiled_columns(made, recipes, CLAIMS)
    assert {"h100", "v100-16gb", "tpu-v5e"} <= {page.name for page in pages} <= set(compiled)
    published = [read_published(folder) for folder in reports]
    build_site(published, tmp_path / "site", "https://example.org", CLAIMS, compiled=pages)
    index = (tmp_path / "site/index.html").read_text()
    assert 'id="evidence-compiled"' in index
    for page in pages:
        name, found = page.name, page.cells
        assert {cell.evidence for cell in found.values()} == {"compiled"}
        assert f'href="compiled/{name}.html"' in index
        text = (tmp_path / "site/compiled" / f"{name}.html").read_text()
        assert set(re.findall(r'<tr id="claim-([^"]+)">', text)) == set(found)
        assert f"<h1>{page.made.title}: what its compiler says</h1>" in text
        assert all(escape(cell.found) in text for cell in found.values())
        assert "float32_default" not in text  # in words
        assert "MiB alive at the peak" in text
        answers = json.loads((tmp_path / "site/compiled" / f"{name}.json").read_text())
        assert answers == compiled[name].model_dump(mode="json")
        for link in re.findall(r'href="\.\./([^"#]+)', text):
            assert (tmp_path / "site" / link).is_file(), link


def test_a_target_tells_of_its_own_kind_of_hardware_and_by_the_recipe_of_the_source_alone():
    made, recipes = read_compiled_evidence(REPOSITORY)
    found = {page.name: page.cells for page in compiled_columns(made, recipes, CLAIMS)}
    assert found["tpu-v5e"].keys() == {"s2-tpus-use-bfloat16-inside"}  # and none that is about GPUs
    assert found["v100-16gb"]["s3-mixed-fits-at-256"].verdict == "inconclusive"
    assert "s3-mixed-fits-at-256" not in found["h100"]  # which has more than 16 GB
    other = {name: {**recipe, "image_size": 1, "batch_size": 1} for name, recipe in recipes.items()}
    assert "v100-16gb" not in {page.name for page in compiled_columns(made, other, CLAIMS)}
    nothing = [each.model_copy(update={"programs": []}) for each in made]
    assert compiled_columns(nothing, recipes, CLAIMS) == []  # and no page


def test_a_claim_that_no_address_can_name_is_refused(reports, tmp_path):
    judged(reports[0], **{"<script>": "reproduced"})
    with pytest.raises(InputError, match="a claim is named '<script>'"):
        build_site([read_published(reports[0])], tmp_path / "site", "https://example.org", CLAIMS)


def test_a_site_takes_nothing_from_a_strangers_folder_but_the_study(reports, tmp_path):
    """Links and other files are nobody's study; a folder with the name of a page would hide that page."""
    folder = shutil.copytree(reports[0], tmp_path / "study")
    (folder / "more").symlink_to("/etc")
    (folder / "again").symlink_to(".")
    build_site([read_published(folder)], tmp_path / "site", "https://example.org", CLAIMS)
    assert {path.name for path in (tmp_path / "site" / "study").iterdir()} == set(FILES)
    page = folder.rename(tmp_path / "index.html")
    with pytest.raises(InputError, match="the site has a page of that name"):
        read_published(page)


@pytest.mark.parametrize("name", [name for name in FILES if name != "crate.zip"])
def test_a_file_that_is_not_the_one_in_its_archive_is_refused(reports, name):
    """Better verdicts beside an archive that has the honest ones."""
    content = (reports[0] / name).read_bytes()
    for forged in (content + b" ", content.replace(b"o", b"0"), b""):
        (reports[0] / name).write_bytes(forged)
        with pytest.raises(InputError, match=rf"{name} is damaged \(it is not the one in crate\.zip\)"):
            read_published(reports[0])
    (reports[0] / "crate.zip").write_bytes(b"zip")
    with pytest.raises(InputError, match=r"crate\.zip is damaged \(File is not a zip file"):
        read_published(reports[0])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_plain_file_is_not_published(reports, name, place):
    (reports[0] / name).unlink()
    PLACES[place](reports[0] / name)
    with pytest.raises(InputError, match=rf"{name} missing, or no plain file"):
        read_published(reports[0])


@pytest.mark.parametrize(
    "name", ["Index.HTML", "Claims", "compiled", "javascript:alert(1)", "a b", "-x", ".x", "\u202ex", "a?b", "x" * 101]
)
def test_a_folder_that_no_address_can_name_is_refused(reports, name):
    with pytest.raises(InputError, match="Rename the folder") as caught:
        read_published(reports[0].rename(reports[0].with_name(name)))
    assert str(caught.value).isprintable()


def test_a_link_to_a_study_is_refused(reports, tmp_path):
    (tmp_path / "linked").symlink_to(reports[0])
    with pytest.raises(InputError, match="linked is a link"):
        read_published(tmp_path / "linked")


def test_a_site_never_takes_the_place_of_a_study(reports, tmp_path):
    published = [read_published(folder) for folder in reports]
    reports[0].rename(tmp_path / "reports" / "site.partial")
    published.append(read_published(tmp_path / "reports" / "site.partial"))
    del published[0]
    for site in ("reports", "reports/study-1", "reports/study-1/report.html", "reports/site", "reports/../reports", ""):
        with pytest.raises(InputError, match="the published study"):
            build_site(published, tmp_path / site, "https://example.org", CLAIMS)
    for study in published:
        assert read_published(study.folder) == study


def test_the_feed_is_atom(site):
    feed = ElementTree.parse(site / "feed.xml").getroot()
    assert feed.tag == f"{ATOM}feed"
    entries = feed.findall(f"{ATOM}entry")
    assert [entry.findtext(f"{ATOM}id") for entry in entries] == [
        f"https://example.org/mixed/study-{index}/" for index in (3, 2, 1)
    ]
    assert feed.findtext(f"{ATOM}updated") == entries[0].findtext(f"{ATOM}updated") == "2026-03-01T00:00:00+00:00"
    assert all(entry.findtext(f"{ATOM}title") for entry in entries)


def test_the_badge_has_the_verdicts_of_the_latest(site):
    badge = ElementTree.parse(site / "badge.svg").getroot()
    assert badge.get("aria-label") == "claims: 1 reproduced"


def test_nothing_published_or_a_damaged_study_says_what_to_do(reports, tmp_path):
    with pytest.raises(InputError, match="no study is published yet"):
        build_site([], tmp_path / "site", "https://example.org", CLAIMS)
    (reports[0] / "comparison.json").write_text("{")
    seal(reports[0])
    with pytest.raises(InputError, match=r"study-2/comparison\.json is damaged .* make publish TO="):
        read_published(reports[0])
    (reports[1] / "crate.zip").unlink()
    with pytest.raises(InputError, match=r"study-1: crate\.zip missing"):
        read_published(reports[1])


def test_the_projects_own_published_studies_make_a_site(tmp_path):
    folders = [path for path in (REPOSITORY / "docs" / "reports").iterdir() if path.is_dir()]
    build_site([read_published(folder) for folder in folders], tmp_path / "site", "https://example.org", CLAIMS)
