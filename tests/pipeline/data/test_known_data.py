"""Data sets whose content is known: those of this repository, and CIFAR-100 from hosts that work or fail."""

import contextlib
import hashlib
import io
import json
import shutil
import tarfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from pipeline.data import hosts, known
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


def test_damaged_bundled_images_are_reported_with_their_remedy(tmp_path, monkeypatch):
    for path in known.BUNDLED.glob("cifar100_quick.*"):
        shutil.copy(path, tmp_path)
    picture = tmp_path / "cifar100_quick.test.webp"
    pixels = np.array(Image.open(picture))
    pixels[40, 40, 0] ^= 1
    Image.fromarray(pixels).save(picture, lossless=True, quality=0, method=0)
    monkeypatch.setattr(known, "BUNDLED", tmp_path)
    with pytest.raises(
        InputError, match=r"(?s)does not hold cifar100_quick as this repository has it.*git checkout -- "
    ):
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


def binary(parts: dict[str, Examples]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as file:
        for part, (images, labels) in parts.items():
            channels = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
            rows = np.column_stack([np.full_like(labels, 9), labels, channels]).astype(np.uint8)
            member = tarfile.TarInfo(f"cifar-100-binary/{part}.bin")
            member.size = rows.size
            file.addfile(member, io.BytesIO(rows.tobytes()))
    return content.getvalue()


def parquet(part: Examples) -> bytes:
    rows = [
        {"img": {"bytes": png(i), "path": None}, "fine_label": int(n), "coarse_label": 0}
        for i, n in zip(*part, strict=True)
    ]
    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), content)
    return content.getvalue()


HOSTS = {"original": "127.0.0.1", "mirror": "127.0.0.2"}
FILES = {
    "cifar-100-binary.tar.gz": binary(WHOLE),
    "train-00000-of-00001.parquet": parquet(WHOLE["train"]),
    "test-00000-of-00001.parquet": parquet(WHOLE["test"]),
}
OTHERS = {"cifar-100-binary.tar.gz": binary(OTHER), "train-00000-of-00001.parquet": parquet(OTHER["train"])}


class Handler(BaseHTTPRequestHandler):
    """Serves FILES, well or in the way that the first folder of the address names."""

    def do_GET(self):
        how, name = self.path.strip("/").split("/", 1)
        content = (FILES | OTHERS if how == "other" else FILES)[name]
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
    digest = hashlib.sha256(FILES["cifar-100-binary.tar.gz"]).hexdigest()
    monkeypatch.setattr(hosts, "ARCHIVE_SHA256", digest)
    monkeypatch.setattr(hosts, "SILENT_SECONDS", 0.4)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def served(server, monkeypatch):
    """Has each host of cifar100 behave in one way, by default refuse."""

    def serve(original: str = "refuses", mirror: str = "refuses") -> None:
        for name, how in (("original", original), ("mirror", mirror)):
            folder = f"http://{HOSTS[name]}:{server.rpartition(':')[2]}/{how}"
            source = getattr(hosts, name.upper())
            monkeypatch.setattr(hosts, name.upper(), source._replace(folder=folder))

    return serve


def same_as_whole(parts: dict[str, Examples]) -> bool:
    expected = known.checked("cifar100", WHOLE)
    return all(np.array_equal(parts[p][n], expected[p][n]) for p in ("train", "test") for n in (0, 1))


@pytest.mark.parametrize("name", ["original", "mirror"])
def test_every_host_gives_the_same_arrays(served, name):
    served(**{name: "right"})
    parts, came_from = hosts.fetch()
    assert same_as_whole(parts)
    assert came_from.partition(":")[0] == HOSTS[name]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("refuses", "not from HOST: 503 Server Error"),
        ("stalls", "not from HOST: "),
        ("other", "not from HOST: its train images and labels differ from those of cifar100"),
    ],
)
def test_a_failing_host_is_replaced_by_the_next(served, capsys, tmp_path, how, said):
    """The folder of TFDS comes first, where nothing is prepared."""
    served(mirror=how, original="right")
    parts, came_from = hosts.fetch()
    assert same_as_whole(parts)
    assert came_from.startswith("127.0.0.1:")
    folder, asked, *_, line, last = capsys.readouterr().out.splitlines()
    assert folder.endswith(f"folder {tmp_path / 'tfds'}: it has no cifar100/<version>/dataset_info.json")
    assert asked == f"cifar100: train-00000-of-00001.parquet from {hosts.MIRROR.host}"
    assert line.startswith(f"cifar100: {said.replace('HOST', hosts.MIRROR.host)}")
    assert last == f"cifar100: cifar-100-binary.tar.gz from {came_from}"


def test_wrong_images_are_refused_and_not_kept(served):
    served(mirror="other", original="other")
    with pytest.raises(
        InputError, match=r"SHA256 hash of downloaded file \(cifar-100-binary\.tar\.gz\) does not match"
    ):
        hosts.fetch()
    served(mirror="right")
    assert same_as_whole(hosts.fetch()[0])


def test_a_fetched_file_is_not_fetched_again(served):
    served(original="right")
    assert same_as_whole(hosts.fetch()[0])
    served()
    assert same_as_whole(hosts.fetch()[0])


def test_the_last_line_says_what_to_do_if_no_host_answers(served, tmp_path):
    served()
    with pytest.raises(InputError) as caught:
        prepare("images", DatasetSource(tfds="cifar100"), tmp_path / "data")
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines[2:4]] == ["  not from 127.0.0.2", "  not from 127.0.0.1"]
    assert lines[-2].startswith("Connect this machine to the network")
    assert "TFDS_DATA_DIR" in lines[-1]
    assert not (tmp_path / "data" / "images").exists()
