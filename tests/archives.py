"""Archives and folders as a hostile or an unlucky hand leaves them: each damage is one line."""

import io
import json
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

Contents = dict[str, bytes]
RUN = "runs/wide/mixed/seed-1/"
BLOCKS, CIRCUMSTANCES = "results/speed/wide/blocks.csv", "results/speed/wide/measurement.json"
RECORD, EPOCHS, PREDICTIONS = RUN + "record.json", RUN + "epochs.csv", RUN + "predictions.npz"


def contents_of(archive: Path) -> Contents:
    with zipfile.ZipFile(archive) as file:
        return {name: file.read(name) for name in file.namelist()}


def pack(contents: Contents) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in contents.items():
            file.writestr(name, content)
    return target.getvalue()


# Changes of one file's content.
Edit = Callable[[bytes], bytes]


def within(part: str, **values: object) -> Edit:
    """These keys of a part of a record, in place of what stands there."""

    def edit(content: bytes) -> bytes:
        found = json.loads(content)
        found[part].update(values)
        return json.dumps(found).encode()

    return edit


def put(**values: object) -> Edit:
    """These keys of a JSON object, in place of what stands there."""
    return lambda content: json.dumps(json.loads(content) | values).encode()


def swap(old: str, new: str) -> Edit:
    def edit(content: bytes) -> bytes:
        changed = re.sub(old.encode(), new.encode(), content)
        assert changed != content, old
        return changed

    return edit


def npz(**arrays: np.ndarray) -> Edit:
    def edit(_: bytes) -> bytes:
        target = io.BytesIO()
        np.savez_compressed(target, **arrays)
        return target.getvalue()

    return edit


def npz_of(content: bytes) -> Edit:
    """An npz file whose arrays are these bytes."""
    return lambda _: pack({"labels.npy": content, "predicted.npy": content})


def shifted(by: int) -> Edit:
    """Other classes, and as many of them right."""

    def edit(content: bytes) -> bytes:
        with np.load(io.BytesIO(content)) as arrays:
            return npz(**{name: array.astype(np.int64) + by for name, array in arrays.items()})(content)

    return edit


def header(text: str) -> bytes:
    """The beginning of an array in NumPy's format 1.0."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n"


def whole(content: bytes) -> Edit:
    return lambda _: content


ONES = np.ones(100, np.int64)
DEEP = b"[" * 100_000
TERABYTES = header("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }")

# One file of an archive, or of a study's folder, after the damage, and what the message must say. The remedies differ.
DAMAGED_RUNS: dict[str, tuple[str, Edit, str]] = {
    "a record that completed without an accuracy": (RECORD, within("scores", test_accuracy=None), "without test_acc"),
    "a record with more test examples than predictions": (RECORD, put(num_test_examples=10**6), "1000000 test examples"),
    "a record with a better accuracy": (RECORD, within("scores", test_accuracy=0.999), "accuracy differs from the 0.999"),
    "a record with an accuracy above 1": (RECORD, within("scores", test_accuracy=91.0), "test_accuracy"),
    "a record of an older version": (RECORD, put(schema_version=7), "schema_version: .* Received: 7"),
    "a record of another run": (RECORD, put(seed=0), "it is the record of runs/wide/mixed/seed-0"),
    "a record with fewer epochs": (RECORD, put(num_epochs=1), "num_epochs|epochs 1 to 1"),
    "a record with NaN": (RECORD, within("times", startup_seconds=float("nan")), "is damaged"),
    "a record with an impossible date": (RECORD, put(started_at="2026-13-45T25:61:00+00:00"), "started_at"),
    "a record with another dtype than its policy's": (RECORD, put(compute_dtype="float32"), "compute_dtype float32"),
    "a record with a text in place of a number": (RECORD, within("planned", batch_size="16"), "batch_size"),
    "a record that is not text": (RECORD, whole(b"\xff\xfe\x00"), "is damaged"),
    "epochs without a header": (EPOCHS, lambda content: b"\n".join(content.splitlines()[1:]), "is damaged"),
    "epochs with an extra cell": (EPOCHS, lambda content: content.rstrip() + b",1,2\r\n", "row 2 does not match"),
    "epochs that take almost no time": (EPOCHS, swap(r"(?m)^2,2,[\d.]+", "2,2,1e-300"), "train_seconds"),
    "blocks that take no time": (BLOCKS, swap(r"completed,1,16,[\d.]+", "completed,1,16,0.0"), "wall_seconds"),
    "blocks without images": (BLOCKS, swap(r"completed,1,16,", "completed,0,0,"), "no images"),
    "failed blocks that have a time": (BLOCKS, swap(r"completed,1,16,", "out_of_memory,1,16,"), "must have wall_seconds if it completed"),
    "blocks with an enormous turn number": (BLOCKS, swap(r",1,1,2,float32(?=\r?\n)", ",1,1000000000000,1,float32"), "turn"),
    "blocks whose images do not match their steps": (BLOCKS, swap("completed,1,32,", "completed,1,33,"), "33 images do not match 1 steps"),
    "blocks without a first launch": (BLOCKS, swap(r",1,1,2,float32(?=\r?\n)", ",7,1,2,float32"), "its launches are not numbered from 1"),
    "a block that occurs twice": (BLOCKS, swap(r",1,1,2,float32(?=\r?\n)", ",1,2,3,float32"), "it contains a block twice"),
    "blocks of a variant outside the study": (BLOCKS, swap(r",mixed(?=\r?\n)", ",other"), "variants are not"),
    "speeds measured on another device": (CIRCUMSTANCES, swap('"num_cpus": ?2', '"num_cpus": 64'), r"they differ in device \(Example CPU, 64 cores; Example CPU, 2 cores"),
    "speeds without launches": (CIRCUMSTANCES, whole(b"{}"), "launches"),
    "predictions as npy": (PREDICTIONS, whole(TERABYTES), "not a zip file"),
    "predictions that are not integers": (PREDICTIONS, npz(labels=ONES * 0.5, predicted=ONES * 0.5), "arrays of integers"),
    "predictions that would be unpickled": (PREDICTIONS, npz(labels=np.array([{}]), predicted=np.array([{}])), "allow_pickle=False"),
    "predictions without labels": (PREDICTIONS, npz(predicted=ONES), "must hold exactly labels and predicted"),
    "predictions that claim to be terabytes": (PREDICTIONS, npz_of(TERABYTES), "is damaged"),
    "predictions of other examples": (PREDICTIONS, shifted(1), "labels differ from those"),
}  # fmt: skip


def add(name: str, content: bytes = b"raise SystemExit('it ran')") -> Callable[[Contents], bytes]:
    """One more file."""
    return lambda contents: pack(contents | {name: content})


def change(name: str, edit: Edit) -> Callable[[Contents], bytes]:
    return lambda contents: pack(contents | {name: edit(contents[name])})


def without(name: str) -> Callable[[Contents], bytes]:
    return lambda contents: pack({other: content for other, content in contents.items() if other != name})


def patch(signature: bytes, offset: int, value: bytes, every: bool = False) -> Callable[[Contents], bytes]:
    """Other bytes at `offset` of what begins with `signature`, the last of them or every one."""

    def edit(contents: Contents) -> bytes:
        packed = bytearray(pack(contents))
        starts = [match.start() for match in re.finditer(re.escape(signature), packed)]
        for start in starts if every else starts[-1:]:
            packed[start + offset : start + offset + len(value)] = value
        return bytes(packed)

    return edit


def twice(contents: Contents) -> bytes:
    target = io.BytesIO(pack(contents))
    with zipfile.ZipFile(target, "a") as file, warnings.catch_warnings(action="ignore"):
        file.writestr("params.yaml", b"other: study")
    return target.getvalue()


CENTRAL, END = b"PK\x01\x02", b"PK\x05\x06"
BIDI = "results/\u202elmth.troper"
DAMAGED_ARCHIVES: dict[str, tuple[Callable[[Contents], bytes], str]] = {
    "yaml.py beside the results": (add("yaml.py"), "yaml.py, which does not belong"),
    "a name that leads outside": (add("../escaped.txt"), "escaped.txt, which does not belong"),
    "a name that reads backwards": (add(BIDI), r"\\u202e"),
    "a name of 3,000 characters": (add("r" * 3000), "which does not belong"),
    "a name that occurs twice": (twice, "contains a name twice"),
    "no study": (without("params.yaml"), "it has no params.yaml"),
    "a study that is not a mapping": (change("params.yaml", whole(b"[]")), "params.yaml"),
    "a study with 10,000 seeds": (change("params.yaml", swap(r"(?sm)^seeds:.*?\n(?=\w)", f"seeds: {list(range(10_000))}\n")), "seeds"),
    "a study with Python objects": (change("params.yaml", whole(b"!!python/object/apply:os.system ['true']")), "not readable as YAML"),
    "a study nested too deeply": (change("params.yaml", whole(DEEP)), "more than 50 deep"),
    "a study with aliases": (change("params.yaml", lambda content: content + b"notes: &a [*a]"), "it has aliases"),
    "a study of 2 MiB": (change("params.yaml", lambda content: content + b"#" * 2**21), "more than 1,048,576 bytes"),
    "encrypted": (patch(CENTRAL, 8, b"\x01\x00", every=True), "is encrypted"),
    "an unknown compression": (patch(CENTRAL, 10, b"\x63\x00", every=True), "unknown compression"),
    "bit rot inside a member": (lambda c: (lambda p: p[:60] + b"\xff" * 40 + p[100:])(pack(c)), "is damaged"),
    "a member of three gigabytes": (patch(CENTRAL, 24, struct.pack("<L", 3 * 10**9)), "more than 256 MiB"),
    "a member larger than listed": (patch(CENTRAL, 24, struct.pack("<L", 5)), "is damaged"),
    "a list of 60,000 members": (patch(END, 10, struct.pack("<H", 60_000)), "lists more than"),
    "too many empty members": (lambda _: pack({f"f{number}": b"" for number in range(20_001)}), "lists more than"),
    "an empty file": (lambda _: b"", "not a zip file"),
}  # fmt: skip
