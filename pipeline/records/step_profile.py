"""What the profile stage leaves behind, `results/step_profile.csv`: a row for each kind of operation of a step."""

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field

from pipeline.files.untrusted import Remedy, read_rows
from pipeline.records.schema import Count, Part, Share
from pipeline.study.variant import PolicyName

STEP_PROFILE = Path("results/step_profile.csv")
Kind = Literal[
    "convolution", "depthwise convolution", "matrix product", "batch norm", "cast", "optimizer and loss scale", "rest"
]
KINDS: tuple[Kind, ...] = get_args(Kind)


class ProfiledKind(Part):
    """What all operations of a kind take in a training step of a policy.

    `milliseconds` of a step are summed over operations. Two of them may run side by side, so that all together may
    take longer than the step. `share`, in [0, 1], is that of the sum. `kernel` is oneDNN's name of the kernel that
    takes most of it, and the direction; None where TensorFlow's own kernels compute.
    """

    benchmark: str
    policy: PolicyName
    batch_size: Count
    kind: Kind
    milliseconds: Annotated[float, Field(ge=0, le=1e9)]
    share: Share
    kernel: Annotated[str, Field(max_length=200)] | None


def read_step_profile(root: Path) -> list[ProfiledKind]:
    """Read the rows under `root`; none where no step was profiled."""
    path = root / STEP_PROFILE
    if not path.exists():
        return []
    remedy = "Run: dvc repro --force --single-item profile"
    return read_rows(ProfiledKind, path, Remedy(remedy, f"Remove it. {remedy}"))
