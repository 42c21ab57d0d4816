"""Fetch all of CIFAR-100: from a folder that TFDS prepared, from a mirror, or from the original host."""

import io
import os
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pooch
import pyarrow.parquet
from PIL import Image

from pipeline.data.datasets import Examples
from pipeline.data.known import checked
from pipeline.errors import InputError

FETCHED = Path(".cache/downloads")
SILENT_SECONDS = 15  # without data, after which the next host is tried
NAME = "cifar100"
ARCHIVE, ARCHIVE_SHA256 = "cifar-100-binary.tar.gz", "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"
TABLES = ("train-00000-of-00001.parquet", "test-00000-of-00001.parquet")


class Source(NamedTuple):
    """Name a folder on a host, its files, and the function that reads the fetched files."""

    folder: str
    files: Sequence[str]
    read: Callable[[list[Path]], dict[str, Examples]]

    @property
    def host(self) -> str:
        return urlsplit(self.folder).netloc or f"the folder {self.folder}"


def fetch() -> tuple[dict[str, Examples], str]:
    """Return CIFAR-100's train and test examples from the first source that has them, and the name of that source.

    The sources are TFDS's folder, a mirror, and the original host, which comes last because it may take an hour
    (pytorch/vision #9536).

    Raises:
        InputError: no source has the data set; the message gives the reason for each, and says what to do.
    """
    reasons: list[str] = []
    for source in (Source(str(tfds_folder()), (), _read_prepared), MIRROR, ORIGINAL):
        try:
            return _from(source)
        except Exception as error:  # whatever networks, archives and strangers' files raise
            reasons.append(f"not from {source.host}: {_reason(error)}")
        print(f"{NAME}: {reasons[-1]}", flush=True)
    raise InputError(
        f"{NAME} could not be fetched from anywhere:\n" + "\n".join(f"  {reason}" for reason in reasons) + "\n"
        "`make repro PROFILE=quick` needs no network for its images.\n"
        "Connect this machine to the network and run the command again.\n"
        f"Or copy ~/tensorflow_datasets/{NAME} from a machine that has it, and set TFDS_DATA_DIR to the folder in "
        "which the copy lies."
    )


def _reason(error: BaseException) -> str:
    """Return the message of the original exception, which requests and urllib3 wrap several times."""
    while error.__context__:
        error = error.__context__
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _from(source: Source) -> tuple[dict[str, Examples], str]:
    pooch.get_logger().setLevel("WARNING")
    paths = []
    for file in source.files:
        address = f"{source.folder}/{file}"
        digest = f"sha256:{ARCHIVE_SHA256}" if file == ARCHIVE else None
        print(f"{NAME}: {file} from {source.host}", flush=True)
        downloader = pooch.HTTPDownloader(timeout=SILENT_SECONDS)
        folder = FETCHED / NAME / source.host
        paths.append(Path(pooch.retrieve(address, digest, fname=file, path=folder, downloader=downloader)))
    try:
        return checked(NAME, source.read(paths)), source.host if paths else "TFDS"
    except Exception:
        for path in paths:  # otherwise a wrong file that has no known digest would be used again
            path.unlink(missing_ok=True)
        raise


def tfds_folder() -> Path:
    """Return the folder where TFDS keeps prepared data sets."""
    return Path(os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets").expanduser()


def _read_prepared(_: list[Path]) -> dict[str, Examples]:
    if not any(tfds_folder().glob(f"{NAME}/*/dataset_info.json")):  # before TensorFlow is imported, which takes seconds
        raise InputError(f"it has no {NAME}/<version>/dataset_info.json")
    from pipeline.data.from_tfds import read_prepared

    return read_prepared(NAME)


def _read_binary(paths: list[Path]) -> dict[str, Examples]:
    """Read rows that each hold a coarse label, a fine label and an image, one channel after another."""
    parts = {}
    with tarfile.open(paths[0]) as file:
        for part in ("train", "test"):
            content = file.extractfile(f"cifar-100-binary/{part}.bin")
            rows = np.frombuffer(content.read() if content else b"", np.uint8).reshape(-1, 2 + 3 * 32 * 32)
            parts[part] = Examples(rows[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 1])
    return parts


def _read_parquet(paths: list[Path]) -> dict[str, Examples]:
    """Read tables of PNG images and their labels."""
    parts = {}
    for part, path in zip(("train", "test"), paths, strict=True):
        table = pyarrow.parquet.read_table(path, columns=["img", "fine_label"])
        images = [np.asarray(Image.open(io.BytesIO(each["bytes"]))) for each in table["img"].to_pylist()]
        parts[part] = Examples(np.stack(images), table["fine_label"].to_numpy())
    return parts


ORIGINAL = Source("https://www.cs.toronto.edu/~kriz", (ARCHIVE,), _read_binary)
MIRROR = Source("https://huggingface.co/datasets/uoft-cs/cifar100/resolve/main/cifar100", TABLES, _read_parquet)
