"""Data sets whose content is known: those of this repository, and CIFAR-100 from hosts that work or fail."""

import contextlib
import hashlib
import io
import json
import shutil
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from pipeline.data import from_tfds, hosts, known
from pipeline.data.datasets import Examples
from pipeline.data.preparation import prepare
from pipeline.errors import InputError
from pipeline.study.dataset_source import DatasetSource

# --- Bundled ---


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [("mnist", (28, 28, 1), (60_000, 10_000)), ("cifar100_quick", (32, 32, 3), (3_000, 2_000))],
)
def test_bundled_images_become_arrays(tmp_path, name, shape, counts):
    source = DatasetSource(tfds=name) if name == "mnist" else DatasetSource(bundled=name)
    folder = prepare("images", source, tmp_path)
    said = json.loads((folder / "dataset.json").read_text())
    assert (said["name"], said["came_from"]) == (name, "this repository")
    assert said["content_sha256"] == known.KNOWN[name].content_sha256
    for part, count in zip(("train", "test"), counts, strict=True):
        images, labels = np.load(folder / f"{part}_images.npy"), np.load(folder / f"{part}_labels.npy")
        assert (images.shape, images.dtype) == ((count, *shape), np.uint8)
        assert (labels.shape, labels.dtype) == ((count,), np.int64)
        assert set(labels) == set(range(len(said["classes"])))
        assert said["sha256"][f"{part}_images"] == hashlib.sha256(images.tobytes()).hexdigest()


def test_bundled_data_sets_can_be_split_in_tfds_notation(tmp_path):
    whole = known.read_bundled("cifar100_quick")
    source = DatasetSource(bundled="cifar100_quick", train="train[100:200]+test[:10]", test="test[50%:]")
    folder = prepare("some", source, tmp_path)
    expected = np.concatenate([whole["train"][0][100:200], whole["test"][0][:10]])
    assert np.array_equal(np.load(folder / "train_images.npy"), expected)
    assert np.array_equal(np.load(folder / "test_labels.npy"), whole["test"][1][1000:])


def test_damaged_bundled_images_are_refused(tmp_path, monkeypatch):
    for path in known.BUNDLED.glob("cifar100_quick.*"):
        shutil.copy(path, tmp_path)
    picture = tmp_path / "cifar100_quick.test.webp"
    pixels = np.array(Image.open(picture))
    pixels[40, 40, 0] ^= 1
    Image.fromarray(pixels).save(picture, lossless=True, quality=0, method=0)
    monkeypatch.setattr(known, "BUNDLED", tmp_path)
    with pytest.raises(InputError, match="test images and labels differ from those of cifar100_quick"):
        known.read_bundled("cifar100_quick")


# --- Hosts ---


def pictures(count: int, seed: int) -> Examples:
    rng = np.random.default_rng(seed)
    return Examples(rng.integers(0, 256, (count, 32, 32, 3), np.uint8), rng.integers(0, 100, count))


WHOLE = {"train": pictures(40, 0), "test": pictures(10, 1)}  # what cifar100 is in these tests
OTHER = {"train": pictures(40, 2), "test": pictures(10, 1)}


def png(image: np.ndarray) -> bytes:
    content = io.BytesIO()
    Image.fromarray(image).save(content, "PNG")
    return content.getvalue()


def parquet(part: Examples) -> bytes:
    rows = [
        {"img": {"bytes": png(i), "path": None}, "fine_label": int(n), "coarse_label": 0}
        for i, n in zip(*part, strict=True)
    ]
    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), content)
    return content.getvalue()


FILES = {file: parquet(WHOLE[part]) for part, file in hosts.TABLES.items()}
OTHERS = {file: parquet(OTHER[part]) for part, file in hosts.TABLES.items()}


class Handler(BaseHTTPRequestHandler):
    """Serves FILES, well or in the way that the first folder of the address names."""

    def do_GET(self):
        how, name = self.path.strip("/").split("/", 1)
        content = (OTHERS if how == "other" else FILES)[name]
        if how == "refuses":
            self.send_error(503)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            if how == "stalls":
                self.wfile.write(content[:100])
                time.sleep(2)
            else:
                self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("0.0.0.0", 0), Handler) as at:  # noqa: S104
        threading.Thread(target=at.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{at.server_port}"
        at.shutdown()


@pytest.fixture(autouse=True)
def small_world(monkeypatch, tmp_path):
    """Fifty pictures are cifar100, waiting is short, and nothing is prepared on this machine."""
    contents = {part: known.in_order(*examples)[1] for part, examples in WHOLE.items()}
    monkeypatch.setitem(known.KNOWN, "cifar100", known.KNOWN["cifar100"]._replace(content_sha256=contents))
    monkeypatch.setattr(hosts, "SILENT_SECONDS", 0.4)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def served(server, monkeypatch):
    """Has the mirror behave in one way, by default refuse, and TFDS give these examples, by default none."""

    def serve(mirror: str = "refuses", tfds: dict[str, Examples] | None = None) -> None:
        def read(*_):
            if tfds is None:
                raise ConnectionError("no route to host")
            return hosts.NAME, [], tfds

        monkeypatch.setattr(from_tfds, "read_tfds", read)
        monkeypatch.setattr(hosts, "MIRROR", f"{server}/{mirror}")

    return serve


def same_as_whole(parts: dict[str, Examples]) -> bool:
    expected = known.checked("cifar100", WHOLE)
    return all(np.array_equal(parts[p][n], expected[p][n]) for p in ("train", "test") for n in (0, 1))


def test_the_mirror_is_asked_first(served):
    served(mirror="right", tfds=OTHER)
    parts, came_from = hosts.fetch()
    assert same_as_whole(parts)
    assert came_from.startswith("127.0.0.1:")


def test_what_tfds_has_prepared_is_read_first(served, tmp_path):
    served(mirror="other", tfds=WHOLE)
    (tmp_path / "tfds" / "cifar100" / "3.0.2").mkdir(parents=True)
    (tmp_path / "tfds" / "cifar100" / "3.0.2" / "dataset_info.json").touch()
    parts, came_from = hosts.fetch()
    assert (same_as_whole(parts), came_from) == (True, "TFDS")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("refuses", "503 Server Error"),
        ("stalls", ""),
        ("other", "the train images and labels differ from those of cifar100"),
    ],
)
def test_tfds_replaces_a_mirror_that_fails(served, server, capsys, how, said):
    served(mirror=how, tfds=WHOLE)
    parts, came_from = hosts.fetch()
    assert (same_as_whole(parts), came_from) == (True, "TFDS")
    host = server.removeprefix("http://")
    asked, failed, last = capsys.readouterr().out.splitlines()
    assert (asked, last) == (f"cifar100: from {host}", "cifar100: from TFDS")
    assert failed.startswith(f"cifar100: not from {host}: {said}")


def test_wrong_images_are_refused_and_not_kept(served):
    served(mirror="other", tfds=OTHER)
    with pytest.raises(InputError, match="not from TFDS: the train images and labels differ"):
        hosts.fetch()
    served(mirror="right")
    assert same_as_whole(hosts.fetch()[0])


def test_a_fetched_file_is_not_fetched_again(served):
    served(mirror="right")
    assert same_as_whole(hosts.fetch()[0])
    served()
    assert same_as_whole(hosts.fetch()[0])


def test_the_last_lines_say_what_to_do_if_no_host_answers(served, tmp_path):
    served()
    with pytest.raises(InputError) as caught:
        prepare("images", DatasetSource(tfds="cifar100"), tmp_path / "data")
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines[1:3]] == ["  not from 127.0.0.1", "  not from TFDS"]
    assert lines[-2].startswith("Connect this machine to the network")
    assert "TFDS_DATA_DIR" in lines[-1]
    assert not (tmp_path / "data" / "images").exists()
