"""The faults that a model's health check can find, and their remedies. Nothing here needs an engine."""

from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

MAX_LAYERS_NAMED = 3  # of those that a finding is about, in a message

Severity = Literal["fault", "warning", "note"]
Rule = Literal[
    "output_dtype",
    "softmax_dtype",
    "batch_norm_variables",
    "own_dtype",
    "returned_dtype",
    "vanishing_epsilon",
    "optimizer_constant",
    "float16_range",
    "not_finite",
    "gradient_underflow",
    "narrow_shapes",
]


class RuleRemedy(NamedTuple):
    """The severity of a rule, and what mends it: a fault spoils results, a warning may, a note costs speed."""

    severity: Severity
    text: str


REMEDIES: dict[Rule, RuleRemedy] = {
    "output_dtype": RuleRemedy(
        "fault",
        'End in a layer with dtype="float32", such as Activation("softmax", dtype="float32"): the loss needs more than '
        "three digits.",
    ),
    "softmax_dtype": RuleRemedy(
        "fault",
        'Give dtype="float32" to the softmax itself. A cast after it brings no digits back.',
    ),
    "batch_norm_variables": RuleRemedy(
        "fault",
        "Use a mixed_ policy, whose variables are float32: a moving average in 16 bits stops where its steps round to "
        "zero.",
    ),
    "own_dtype": RuleRemedy(
        "note",
        "Leave dtype out so that the layer follows the policy, unless it is meant: each such layer costs two casts and "
        "runs at the speed of its own type.",
    ),
    "returned_dtype": RuleRemedy(
        "warning",
        "Cast what the layer returns to self.compute_dtype, and constants and variables to the dtype of its inputs: "
        "float32 among them makes all that follows inside the layer float32.",
    ),
    "vanishing_epsilon": RuleRemedy(
        "fault",
        "Compute that part in float32 (cast the input, cast the result back), or take an epsilon that the type holds: "
        "1e-4 in float16.",
    ),
    "optimizer_constant": RuleRemedy(
        "fault",
        "Use a mixed_ policy, under which the optimizer works in float32; or an epsilon of at least 1e-4 for float16, "
        "a beta_2 of at most 0.99 for bfloat16.",
    ),
    "float16_range": RuleRemedy(
        "fault",
        "Scale images to [0, 1], normalise before the layer named, or use mixed_bfloat16, which has the range of "
        "float32.",
    ),
    "not_finite": RuleRemedy(
        "fault",
        "Compute that layer in float32 (cast its input, cast the result back): a number on the way to its result "
        "leaves the type's range.",
    ),
    "gradient_underflow": RuleRemedy(
        "warning",
        "Shorten or normalise the path from the loss (residual connections, another activation), or use "
        "mixed_bfloat16, which has the range of float32.",
    ),
    "narrow_shapes": RuleRemedy("note", "Round them up to a multiple: narrower blocks of the matrix units stay empty."),
}


class Finding(BaseModel):
    """One thing that is wrong with a model under a policy; `layers` in the order of calls, empty for the whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: Rule
    layers: list[str]
    what: str

    @property
    def severity(self) -> Severity:
        return REMEDIES[self.rule].severity

    @property
    def remedy(self) -> str:
        return REMEDIES[self.rule].text


class Examination(BaseModel):
    """A model under one policy, looked at with its first weights.

    `largest_activation` is what float32 computes inside the model. Shares, in [0, 1], are of the activation gradients
    that are not zero in float32, and say what float16 would flush to zero, without and with the loss scale at which
    training starts; None where they can't be told.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: str
    findings: list[Finding]
    largest_activation: float
    flushed_share: float | None
    flushed_share_scaled: float | None
