"""Fetch whole data sets: from a folder that TFDS prepared, from the hosts of the original files, or from mirrors."""

import gzip
import io
import os
import tarfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pooch
import pyarrow.parquet
import requests
from PIL import Image

from pipeline.data.known import KNOWN, Part, checked, class_names
from pipeline.errors import InputError

ORDER = "DATA_SOURCES"  # the variable that names the sources to try, in order
FETCHED = Path(".cache/downloads")
MIN_BYTES_PER_SECOND = 300_000  # a host that is slower for SECONDS is left for the next one
SECONDS = 15  # also how long a host may say nothing
TELL_SECONDS = 10
_SHA256 = {  # as TFDS has them
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    "cifar-100-binary.tar.gz": "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
}
*_MNIST, _CIFAR100 = _SHA256


class SlowError(Exception):
    """Tell that a host sends less than `MIN_BYTES_PER_SECOND`."""


class Source(NamedTuple):
    """Name a host, the addresses of its files, and the function that reads the fetched files."""

    host: str
    addresses: list[str]
    read: Callable[[str, list[Path]], dict[str, Part]]


def fetch(name: str) -> tuple[dict[str, Part], str]:
    """Return both parts of the known data set `name` from the first source that has it, and say where they come from.

    The sources are `folder`, `original` and the mirrors of `SOURCES`, in this order, or those that the environment
    variable DATA_SOURCES names, in its order; the address of a folder with the original files is one, too. A host that
    is slow is tried again, whatever its rate, where no other has the data set.

    Raises:
        InputError: no source has the data set; the text says why for each, and what to do.
    """
    reasons: list[str] = []
    waiting = [(source, MIN_BYTES_PER_SECOND) for source in _sources(name)]
    for source, min_bytes_per_second in waiting:  # which grows by those that are slow
        try:
            return _from(source, name, min_bytes_per_second)
        except SlowError as error:
            waiting.append((source, 0))
            reasons.append(f"{source.host} is too slow ({error}); the next source is tried")
        except Exception as error:  # whatever networks, archives and strangers' files raise
            reasons.append(f"not from {source.host}: {_reason(error)}")
        print(f"{name}: {reasons[-1]}", flush=True)
    raise InputError(
        f"{name} could not be had from anywhere:\n" + "\n".join(f"  {reason}" for reason in reasons) + "\n"
        "`make repro PROFILE=quick` needs no network for its images.\n"
        f"Connect this machine to the network and run the command again; or set {ORDER} to the address of a folder "
        f"that holds {_file_name(SOURCES[name]['original'].addresses[0])}.\n"
        f"Or copy ~/tensorflow_datasets/{name} from a machine that has it, and set TFDS_DATA_DIR to the folder in "
        "which the copy lies."
    )


def _reason(error: Any) -> str:
    """Return the first line of the reason; requests and urllib3 wrap it several times."""
    inner = error
    while isinstance(inner, Exception):
        error, inner = inner, getattr(inner, "reason", None) or next(iter(inner.args), None)
    text = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    if "does not match the known hash" in text:  # pooch says so in 300 letters
        return "it sent another file than the original"
    return (text.strip().splitlines() or [type(error).__name__])[0]


def _sources(name: str) -> list[Source]:
    known = SOURCES[name]
    named = os.environ.get(ORDER)
    found = []
    for word in filter(None, map(str.strip, (named or ",".join(["folder", *known])).split(","))):
        if word == "folder":
            if named or os.environ.get("TFDS_DATA_DIR") or prepared_folder(name):
                found.append(Source(f"the folder {tfds_folder()}", [], read_prepared))
        elif word.startswith(("http://", "https://")):
            original = known["original"]
            found.append(_source(word.rstrip("/"), map(_file_name, original.addresses), original.read))
        elif word in known:
            found.append(known[word])
        elif not any(word in sources for sources in SOURCES.values()):
            found = []
            break
    if not found:
        raise InputError(
            f"{ORDER}: for {name} it must name, between commas, folder, {', '.join(known)}, or the http(s) address of "
            f"a folder that holds {_file_name(known['original'].addresses[0])}. Received: {named!r}"
        )
    return found


def _from(source: Source, name: str, min_bytes_per_second: float) -> tuple[dict[str, Part], str]:
    paths = [_fetched(name, source.host, address, min_bytes_per_second) for address in source.addresses]
    try:
        return checked(name, source.read(name, paths)), source.host if paths else "TFDS"
    except Exception:
        for path in paths:  # whose digest is not known: they would be found again
            path.unlink(missing_ok=True)
        raise


def _fetched(name: str, host: str, address: str, min_bytes_per_second: float) -> Path:
    file = _file_name(address)
    pooch.get_logger().setLevel("WARNING")  # what it does is told below

    def download(address: str, output: Any, _: Any) -> None:
        _download(f"{name}: {file} from {host}", address, output, min_bytes_per_second)

    digest = f"sha256:{_SHA256[file]}" if file in _SHA256 else None
    folder = FETCHED / name / ("original" if digest else host)  # files whose digest is known are the same everywhere
    return Path(pooch.retrieve(address, digest, fname=file, path=folder, downloader=download))


def _download(what: str, address: str, output: Any, min_bytes_per_second: float) -> None:
    """Write what `address` holds to the open file `output` or the path of it, and tell how far it is."""
    with requests.get(address, stream=True, timeout=SECONDS) as response, open(output, "wb") as file:  # noqa: PTH123
        response.raise_for_status()
        size = int(response.headers.get("Content-Length", 0))
        began = told = window = time.monotonic()
        num_bytes = num_before = 0
        while chunk := response.raw.read1(2**18):
            num_bytes += file.write(chunk)
            now = time.monotonic()
            if now - window >= SECONDS:
                rate = (num_bytes - num_before) / (now - window)
                if rate < min_bytes_per_second:
                    raise SlowError(f"{rate / 1000:.0f} kB/s")
                window, num_before = now, num_bytes
            if now - told >= TELL_SECONDS:
                of = f" of {size / 1e6:.0f}" if size else ""
                print(f"{what}: {num_bytes / 1e6:.0f}{of} MB in {now - began:.0f} s", flush=True)
                told = now


def _file_name(address: str) -> str:
    return PurePosixPath(urlsplit(address).path).name


def tfds_folder() -> Path:
    """Return the folder in which TFDS keeps what it has prepared."""
    return Path(os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets").expanduser()


def prepared_folder(name: str) -> Path | None:
    """Return the folder of the data set `name` that TFDS has prepared on this machine, without importing TFDS."""
    return next((path.parent for path in tfds_folder().glob(f"{name}/*/dataset_info.json")), None)


def read_prepared(name: str, _: object = None) -> dict[str, Part]:
    """Read the data set `name` with TFDS, which finds it under TFDS_DATA_DIR."""
    if not prepared_folder(name):
        raise InputError(f"it has no {name}/<version>/dataset_info.json")
    import pipeline.engine  # noqa: F401  TensorFlow, which takes seconds, without its chatter

    # isort: split
    import tensorflow_datasets as tfds

    parts = tfds.as_numpy(tfds.load(name, split=["train", "test"], batch_size=-1, download=False, as_supervised=True))
    return {"train": parts[0], "test": parts[1]}


def _read_idx(_: str, paths: list[Path]) -> dict[str, Part]:
    contents = [gzip.decompress(path.read_bytes()) for path in paths]
    images = [np.frombuffer(content, np.uint8, offset=16).reshape(-1, 28, 28, 1) for content in contents[::2]]
    labels = [np.frombuffer(content, np.uint8, offset=8) for content in contents[1::2]]
    return dict(zip(("train", "test"), zip(images, labels, strict=True), strict=True))


def _read_binary(_: str, paths: list[Path]) -> dict[str, Part]:
    """Read rows of a coarse label, a fine label, and an image, channel after channel."""
    parts = {}
    with tarfile.open(paths[0]) as file:
        for part in ("train", "test"):
            content = file.extractfile(f"cifar-100-binary/{part}.bin")
            rows = np.frombuffer(content.read() if content else b"", np.uint8).reshape(-1, 2 + 3 * 32 * 32)
            parts[part] = (rows[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 1])
    return parts


def _read_parquet(name: str, paths: list[Path]) -> dict[str, Part]:
    image, label = {"mnist": ("image", "label"), "cifar100": ("img", "fine_label")}[name]
    parts = {}
    for part, path in zip(("train", "test"), paths, strict=True):
        table = pyarrow.parquet.read_table(path, columns=[image, label])
        images = [_decoded(name, each["bytes"]) for each in table[image].to_pylist()]
        parts[part] = (np.stack(images), table[label].to_numpy())
    return parts


def _read_folders(name: str, paths: list[Path]) -> dict[str, Part]:
    """Read pictures in folders, the last of which is named after their class and one above after their part."""
    labels_of = {each: label for label, each in enumerate(class_names(name))}
    images: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    labels: dict[str, list[int]] = {"train": [], "test": []}
    with tarfile.open(paths[0]) as file:
        for member in file:
            folders = PurePosixPath(member.name).parts[:-1]
            part = next((part for part in images if part in folders), None)
            content = file.extractfile(member)
            if part and content and folders[-1] in labels_of:
                images[part].append(_decoded(name, content.read()))
                labels[part].append(labels_of[folders[-1]])
    return {part: (np.stack(images[part]), np.array(labels[part])) for part in images}


def _decoded(name: str, content: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as picture:
        return np.asarray(picture).reshape(KNOWN[name].image_shape)


def _source(folder: str, files: Iterable[str], read: Callable[[str, list[Path]], dict[str, Part]]) -> Source:
    host = urlsplit(folder).netloc.rpartition("@")[2]  # without a password, because it is told and published
    return Source(host, [f"{folder}/{file}" for file in files], read)


_PARQUET = ("train-00000-of-00001.parquet", "test-00000-of-00001.parquet")
_HUGGING_FACE = "https://huggingface.co/datasets"
SOURCES = {
    "mnist": {
        "original": _source("https://storage.googleapis.com/cvdf-datasets/mnist", _MNIST, _read_idx),
        "pytorch": _source("https://ossci-datasets.s3.amazonaws.com/mnist", _MNIST, _read_idx),
        "huggingface": _source(f"{_HUGGING_FACE}/ylecun/mnist/resolve/main/mnist", _PARQUET, _read_parquet),
    },
    "cifar100": {
        "original": _source("https://www.cs.toronto.edu/~kriz", [_CIFAR100], _read_binary),
        "huggingface": _source(f"{_HUGGING_FACE}/uoft-cs/cifar100/resolve/main/cifar100", _PARQUET, _read_parquet),
        "fastai": _source("https://s3.amazonaws.com/fast-ai-imageclas", ["cifar100.tgz"], _read_folders),
    },
}
