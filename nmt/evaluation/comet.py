"""COMET (Rei et al. 2020) by its own package, unbabel-comet; nothing is downloaded.

>>> load_comet("comet")  # the model DEFAULT_MODEL of the local Hugging Face cache
>>> load_comet("comet:Unbabel/XCOMET-XL")
>>> load_comet("comet:models/mine/checkpoints/model.ckpt")
"""

import importlib
import logging
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sacrebleu.metrics.base import Score, Signature

from nmt.errors import ConfigError

DEFAULT_MODEL = "Unbabel/wmt22-comet-da"


class COMET:
    """A COMET model with the methods of a metric of sacreBLEU that compute scores from statistics and signatures.

    The statistics of a line are its score and the number 1; the score of a text is the mean, times 100.
    """

    def __init__(self, name: str, model: Any, gpus: int) -> None:
        self._name, self._model, self._gpus = name, model, gpus
        self.n_bootstrap: int | None = None
        self.seed: str | None = None

    def line_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]], source: Sequence[str] | None
    ) -> list[list[float]]:
        """Return the statistics of each line against the first reference. Raises ConfigError without a source."""
        if source is None:
            raise ConfigError("--metric comet: it compares with the source too; give --source FILE")
        rows = zip(source, hypotheses, references[0], strict=True)
        samples = [{"src": line, "mt": hypothesis, "ref": reference} for line, hypothesis, reference in rows]
        prediction = self._model.predict(samples, batch_size=16, gpus=self._gpus, progress_bar=False)
        return [[float(score), 1.0] for score in prediction.scores]

    def get_signature(self) -> Signature:
        """Return the model and the versions."""
        signature = Signature({"num_refs": 1, "n_bootstrap": self.n_bootstrap, "seed": self.seed})
        signature.update("model", self._name)
        signature.update("comet", version("unbabel-comet"))
        return signature

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        return Score("COMET", 100 * float(stats[0]) / float(stats[1]))

    def _aggregate_and_compute(self, stats: list[list[float]]) -> Score:
        return self._compute_score_from_stats([sum(line[0] for line in stats), len(stats)])


def load_comet(metric: str) -> COMET:
    """Load the model of a metric `comet` or `comet:MODEL`, a name on Hugging Face or a checkpoint file.

    Raises ConfigError if the package or the model is not on this machine.
    """
    name = metric.partition(":")[2] or DEFAULT_MODEL
    try:
        package = importlib.import_module("comet")
        hub = importlib.import_module("huggingface_hub")
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise ConfigError(
            f"--metric {metric}: {error}; it needs the package unbabel-comet, best in an environment of its own "
            "(it does not run with transformers 5): pip install unbabel-comet"
        ) from None
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    try:
        file = Path(name)
        if not file.is_file():
            # comet.download_model would use the network whatever its arguments
            file = Path(hub.snapshot_download(name, local_files_only=True), "checkpoints", "model.ckpt")
        model = package.load_from_checkpoint(str(file), local_files_only=True)
    except Exception as error:  # each of its libraries has its own for a file that is missing
        raise ConfigError(
            f"--metric {metric}: {name} is neither a checkpoint file nor a complete model in the cache of Hugging Face "
            f"({type(error).__name__}). To download it with its encoder (gigabytes), run once: "
            f"comet-score --model {name} -s SOURCE -t HYP -r REF"
        ) from None
    return COMET(name, model, int(torch.cuda.is_available()))
