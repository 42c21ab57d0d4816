"""Define the source of a data set: this repository, TensorFlow Datasets (TFDS), or the user's own builder."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from pipeline.study.configuration import PositiveInt, Section, SourcePath

TfdsName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(/[A-Za-z0-9_.=,-]+)?(:\d+\.\d+\.\d+)?$")]
Feature = Annotated[str, Field(min_length=1)]


class DatasetSource(Section):
    """Name a data set: either `bundled` with this repository, or in TensorFlow Datasets (`tfds`).

    `tfds` is `name`, `name/config`, `name:1.2.3` or `name/config:1.2.3`. If `module` is given, it is imported first and
    registers the user's own builder. `source` is the file or folder that contains `module`. `train` and `test` are
    splits in TFDS's notation, such as `train[:80%]`. If `image_size` is given, images are resized to this number of
    pixels when the data set is prepared. `image` and `label` name the data set's features for images and classes; by
    default, these are the supervised pair that the builder declares.
    """

    bundled: Literal["mnist", "cifar100_quick"] | None = None
    tfds: TfdsName | None = None
    module: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")] | None = None
    source: SourcePath | None = None
    train: str = "train"
    test: str = "test"
    image_size: PositiveInt | None = None
    image: Feature | None = None
    label: Feature | None = None

    @property
    def name(self) -> str:
        """Return the data set's name in this repository or in TFDS."""
        return self.bundled or str(self.tfds)

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if (self.bundled is None) == (self.tfds is None):
            raise ValueError("must name either bundled or tfds.")
        if self.bundled and any((self.module, self.source, self.image_size, self.image, self.label)):
            raise ValueError("with bundled, only train and test may be given.")
        for both in (("module", "source"), ("image", "label")):
            if len({getattr(self, field) is None for field in both}) == 2:
                raise ValueError(f"give both {both[0]} and {both[1]}, or neither.")
        if self.train == self.test:
            raise ValueError(f"train and test are the same, {self.train!r}.")
        return self
