"""Fetch all of CIFAR-100, either with TensorFlow Datasets (TFDS) or from a mirror on Hugging Face."""

import io
import os
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pooch
import pyarrow.parquet
from PIL import Image

from pipeline.data.datasets import Examples
from pipeline.data.known import checked
from pipeline.errors import InputError
from pipeline.study.dataset_source import DatasetSource

FETCHED = Path(".cache/downloads")
SILENT_SECONDS = 15  # the download fails if the mirror sends nothing for this long
NAME = "cifar100"
MIRROR = "https://huggingface.co/datasets/uoft-cs/cifar100/resolve/main/cifar100"
TABLES = {"train": "train-00000-of-00001.parquet", "test": "test-00000-of-00001.parquet"}


def fetch() -> tuple[dict[str, Examples], str]:
    """Return CIFAR-100's train and test examples, and the name of the source that they come from.

    Try TFDS first if its folder already holds the data set. Otherwise, try the mirror first, because TFDS downloads
    from the original host, which may take an hour (pytorch/vision #9536).

    Raises:
        InputError: no source could provide the data set. The message gives the reason for each source and says what to
            do.
    """
    reasons: list[str] = []
    sources = {urlsplit(MIRROR).netloc: _from_mirror, "TFDS": _from_tfds}
    is_prepared = any(tfds_folder().glob(f"{NAME}/*/dataset_info.json"))
    for name in reversed(sources) if is_prepared else sources:
        print(f"{NAME}: from {name}", flush=True)
        try:
            return sources[name](), name
        except Exception as error:  # whatever networks, archives and strangers' files raise
            reasons.append(f"not from {name}: {_reason(error)}")
        print(f"{NAME}: {reasons[-1]}", flush=True)
    raise InputError(
        f"{NAME} could not be fetched from anywhere:\n" + "\n".join(f"  {reason}" for reason in reasons) + "\n"
        "`make repro PROFILE=quick` needs no network for its images.\n"
        "Connect this machine to the network and run the command again.\n"
        f"Or copy ~/tensorflow_datasets/{NAME} from a machine that has it, and set TFDS_DATA_DIR to the folder in "
        "which the copy lies."
    )


def _reason(error: BaseException) -> str:
    """Return the first line of the original exception's message. requests and urllib3 wrap that exception."""
    while error.__context__:
        error = error.__context__
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def tfds_folder() -> Path:
    """Return the folder where TFDS keeps prepared data sets."""
    return Path(os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets").expanduser()


def _from_tfds() -> dict[str, Examples]:
    from pipeline.data.from_tfds import read_tfds  # imported only here, because it imports TensorFlow

    return checked(NAME, read_tfds(NAME, DatasetSource(tfds=NAME))[2])


def _from_mirror() -> dict[str, Examples]:
    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(timeout=SILENT_SECONDS)
    paths = {
        part: Path(pooch.retrieve(f"{MIRROR}/{file}", None, fname=file, path=FETCHED / NAME, downloader=downloader))
        for part, file in TABLES.items()
    }
    try:
        return checked(NAME, {part: _read(path) for part, path in paths.items()})
    except Exception:
        for path in paths.values():  # otherwise a wrong file would be used again
            path.unlink()
        raise


def _read(path: Path) -> Examples:
    """Read images (N, 32, 32, 3) and labels (N,) from a Parquet table of PNG images."""
    table = pyarrow.parquet.read_table(path, columns=["img", "fine_label"])
    images = [np.asarray(Image.open(io.BytesIO(each["bytes"]))) for each in table["img"].to_pylist()]
    return Examples(np.stack(images), table["fine_label"].to_numpy())
