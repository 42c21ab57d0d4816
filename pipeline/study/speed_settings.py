"""The settings of the measurement of speed."""

from typing import Annotated

from pydantic import Field

from pipeline.study.configuration import Section


class SpeedSettings(Section):
    """The seconds for which each benchmark's variants are timed in turns, and the intervals that are narrow enough.

    `target_half_width` is that of the 95 % intervals as a share of the ratio: 0.05 is ±5 %.
    """

    budget_seconds: Annotated[float, Field(gt=0, le=1e6)]
    target_half_width: Annotated[float, Field(gt=0, lt=1)]
