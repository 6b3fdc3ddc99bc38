"""The schedule of the learning rate in a recipe. `nmt.training.optimizer` computes it."""

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from nmt.config.section import Probability, Section, SettingError

Rate = Annotated[float, Field(gt=0, le=1e30)]
"""A learning rate; the bound is that of single precision. Training ends with an error if one is too high."""

_DEFAULTS: dict[str, dict[str, float]] = {
    "noam": {"factor": 2.0, "warmup": 4000},
    "inverse_sqrt": {"rate": 7e-4, "warmup": 4000},
    "constant": {"rate": 1e-4, "warmup": 0},
    "linear": {"rate": 1e-3, "warmup": 1000, "floor": 0.0},
    "cosine": {"rate": 1e-3, "warmup": 1000, "floor": 0.0},
    "wsd": {"rate": 1e-3, "warmup": 1000, "floor": 0.0, "decay": 0.2},
}
"""The keys of each schedule."""


class Schedule(Section):
    """The learning rate as a function of the step.

    noam: factor · dim^-0.5 · min(step^-0.5, step · warmup^-1.5) (Vaswani et al. 2017). The others rise linearly to
    `rate` in `warmup` steps. Then inverse_sqrt is rate · sqrt(warmup / step), constant stays; and until the last step,
    linear falls linearly, cosine as half a cosine (Loshchilov & Hutter 2017), and wsd is constant, then falls linearly
    (Hu et al. 2024).
    """

    name: Literal["noam", "inverse_sqrt", "constant", "linear", "cosine", "wsd"] = "noam"
    """The schedule."""
    rate: Rate = 1e-3
    """The highest learning rate, not of noam. By default 7e-4 for inverse_sqrt and 1e-4 for constant."""
    factor: Rate = 2.0
    """Factor on the whole curve of noam; the highest rate is factor · (dim · warmup)^-0.5."""
    warmup: Annotated[int, Field(ge=0, lt=2**31)] = 4000
    """Steps until the rate is highest. By default 0 for constant, 1,000 for linear, cosine and wsd."""
    floor: Probability = 0.0
    """Rate at the last step, as a fraction of the highest; for linear, cosine and wsd."""
    decay: float = Field(default=0.2, gt=0, le=1)
    """Length of the decay of wsd, as a fraction of all steps."""

    @property
    def falls(self) -> bool:
        """Whether it ends at train.stop.steps."""
        return self.name in ("linear", "cosine", "wsd")

    @model_validator(mode="before")
    @classmethod
    def _add_defaults(cls, data: Any) -> Any:
        """Add the defaults of the schedule. Raises SettingError for a key of other ones."""
        given = {} if data is None else data
        name = given.get("name", "noam") if isinstance(given, dict) else None
        if not isinstance(name, str) or name not in _DEFAULTS:
            return data
        for key in given.keys() & cls.model_fields.keys() - {"name", *_DEFAULTS[name]}:
            raise SettingError(key, f"the schedule {name} has no such key; it has {' and '.join(_DEFAULTS[name])}")
        return {**_DEFAULTS[name], **given}

    @model_serializer(mode="wrap")
    def _own_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in serialize(self).items() if key == "name" or key in _DEFAULTS[self.name]}
