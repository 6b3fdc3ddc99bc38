"""The log of a training run for TensorBoard, with `train.tensorboard`."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from nmt.config import Recipe, recipe_to_yaml
from nmt.config.section import differences
from nmt.errors import ConfigError

_PIXELS = 8  # width and height of an attention weight in the image


class TensorBoard:
    """Writes the numbers of the log, samples, settings, scores, and with `all` tensors, into a folder of the run."""

    def __init__(self, run: Path, recipe: Recipe, following: int) -> None:
        """Begin a file; records of previous files from step `following` on are no longer shown.

        Raises ConfigError if the folder is a symbolic link: a run may come from others.
        """
        folder = run / "tensorboard"
        if folder.is_symlink():
            raise ConfigError(f"{folder}: expected a folder, found a symbolic link; remove it, or set another 'run'")
        from torch.utils.tensorboard import SummaryWriter  # may not be installed

        self._writer: Any = SummaryWriter(folder, purge_step=following)
        text = recipe_to_yaml(recipe, run)
        self._writer.add_text("recipe", "".join(f"    {line}\n" for line in text.splitlines()))
        losses = ["Multiline", ["train/loss", "validation/loss"]]
        self._writer.add_custom_scalars({"loss": {"training and validation": losses}})

    def log(self, record: Mapping[str, Any]) -> None:
        """Write the numbers of a record of metrics.jsonl."""
        for name, value in record.items():
            if name != "step" and isinstance(value, (int, float)):
                self._writer.add_scalar(f"{record['type']}/{name}", value, record["step"])
        self._writer.flush()

    def log_samples(self, step: int, samples: Sequence[tuple[str, str, str]]) -> None:
        """Write source, reference and translation of sentences."""
        texts = ("  \n".join(map(html.escape, sample)) for sample in samples)
        self._writer.add_text("validation/samples", "\n\n".join(texts), step)
        self._writer.flush()

    def log_test(self, recipe: Recipe, scores: Mapping[str, float]) -> None:
        """Write the scores of the test text, and the settings behind them."""
        settings = {setting.key: setting.now for setting in differences({}, recipe.model_dump(mode="json"))}
        plain = {key: value if isinstance(value, (int, float, str)) else str(value) for key, value in settings.items()}
        named = {f"test/{name}": value for name, value in scores.items()}
        self._writer.add_hparams(plain, named, run_name=".")  # another name would be a second run
        self._writer.flush()

    def log_tensors(self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], attention: Tensor) -> None:
        """Write histograms of tensors by kind and name, and attention (L, H, T, S) as an image.

        The image has a row for each layer and a column for each head, whose queries are rows; white is 1.
        """
        for kind, by_name in tensors.items():
            for name, values in by_name.items():
                if values.isfinite().all():  # a skipped update may have left NaN
                    self._writer.add_histogram(f"{kind}/{name}", values, step)
        layers, heads, *shape = attention.shape
        image = attention.transpose(1, 2).reshape(1, layers * shape[0], heads * shape[1])
        enlarged = image.repeat_interleave(_PIXELS, 1).repeat_interleave(_PIXELS, 2)
        self._writer.add_image("validation/attention", enlarged, step)
        self._writer.flush()
