"""Cut a data set's own splits as the study's `train` and `test` say, in the words of TFDS."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.data.known import Part
from pipeline.errors import InputError
from pipeline.study.dataset_source import DatasetSource


def chosen_rows(where: str, source: DatasetSource, splits: Mapping[str, Any]) -> dict[str, list[tuple[str, range]]]:
    """Return the rows that `train` and `test` take of each split of a data set, given TFDS's facts about its splits.

    Raises:
        InputError: there is no such split, or no example in it, or both parts have some in common.
    """
    import tensorflow_datasets as tfds

    found: dict[str, list[tuple[str, range]]] = {}
    for part, split in (("train", source.train), ("test", source.test)):
        try:
            pieces = tfds.core.ReadInstruction.from_spec(split).to_absolute(splits)
        except (AssertionError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{where}.{part}: {source.name} has splits {', '.join(splits)}. {reason}") from None
        found[part] = [
            (piece.splitname, range(splits[piece.splitname].num_examples)[piece.from_ : piece.to]) for piece in pieces
        ]
        if not any(rows for _, rows in found[part]):
            raise InputError(f"{where}.{part}: {split!r} has no example.")
    train, test = ({(of, row) for of, rows in found[part] for row in rows} for part in ("train", "test"))
    if train & test:
        raise InputError(f"{where}: {source.train!r} and {source.test!r} have examples in common.")
    return found


def cut(where: str, source: DatasetSource, parts: dict[str, Part]) -> dict[str, Part]:
    """Return the examples that `train` and `test` take of the two splits in `parts`."""
    if (source.train, source.test) == ("train", "test"):
        return parts
    import tensorflow_datasets as tfds

    splits = {
        part: tfds.core.SplitInfo(name=part, shard_lengths=[len(labels)], num_bytes=0)
        for part, (_, labels) in parts.items()
    }
    return {
        part: (
            np.concatenate([parts[of][0][rows.start : rows.stop] for of, rows in chosen]),
            np.concatenate([parts[of][1][rows.start : rows.stop] for of, rows in chosen]),
        )
        for part, chosen in chosen_rows(where, source, splits).items()
    }
