"""Whether an exported model says what ours says: the same lines, searched by both.

Compared are the best translations by greedy search and with a beam of 4, ranked by log-probability alone and with no
token forbidden: so all engines search alike, and what differs is the model. Sentences go one at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nmt.config import RuntimeSettings
from nmt.decoding.engine import Engine, TorchEngine
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.errors import DataError, ModelError
from nmt.model.checkpoint import LoadedModel
from nmt.model.transformer import Transformer
from nmt.text.normalize import normalize
from nmt.text.tokenizer import BOS, EOS

LINES = (
    "Good morning.",
    "Where is the station?",
    "I have been waiting for you since half past seven, but nobody came.",
    "The 3 red cats — 12.50 € each! — slept on the mat; \"really\"?",
    "Mi piacerebbe sapere dov'è la stazione, perché il treno parte fra poco.",
    "今天下雨,我们不去公园了。",
    "你好!请问火车站在哪里?",
    "Ünïcödé 🙂 ▁ <s>",
)  # fmt: skip
_LONGEST = 100
"""Tokens of a line that are compared."""


@dataclass(frozen=True)
class Tolerance:
    """What may differ."""

    log_prob: float
    """Between log-probabilities of the same translation, by token."""
    share: float
    """Of the lines, how many must have the same translation."""


EXACT = Tolerance(1e-4, 1.0)
"""fp32: only the order of sums differs."""
ROUNDED = Tolerance(0.1, 0.5)
"""Weights of fewer bits."""


@dataclass(frozen=True)
class Parity:
    """How alike two engines are."""

    lines: int
    same: dict[str, int]
    """Lines with the same translation, by search."""
    difference: float
    """The largest difference of log_prob by token, where translations are the same."""

    def __str__(self) -> str:
        same = ", ".join(f"{count} of {self.lines} {search}" for search, count in self.same.items())
        return f"the same translation: {same}; log_prob differs by up to {self.difference:.1e} a token"


@dataclass(frozen=True)
class _Line:
    """One line's translations by both."""

    number: int
    source: list[int]
    expected: Hypothesis
    found: Hypothesis

    @property
    def alike(self) -> bool:
        return self.expected.tokens == self.found.tokens

    @property
    def difference(self) -> float:
        """How far the log-probabilities are apart, by token."""
        return abs(self.expected.log_prob - self.found.log_prob) / (len(self.expected.tokens) + 1)


def check_parity(loaded: LoadedModel, engine: Engine, lines: Sequence[str], tolerance: Tolerance) -> Parity:
    """Search all lines that are not empty with both. Raises ModelError naming the line where they differ too much."""
    ours = TorchEngine(loaded.model, RuntimeSettings(device="cpu", precision="fp32"))
    room = _LONGEST if ours.longest is None else min(_LONGEST, ours.longest - 1)
    encode = loaded.tokenizers.source.encode
    numbered = [(number, encode(line)[:room]) for number, line in enumerate(lines, start=1) if normalize(line)]
    if not numbered:
        raise DataError("--lines: every line is empty; expected sentences to compare translations of")
    same, largest = {}, 0.0
    for name, beam in (("greedy", 1), ("with a beam of 4", 4)):
        options = SearchOptions(beam=beam, length_penalty=0.0, forbidden=())
        sentences = [ids for _, ids in numbered]
        expected, found = (own.search(sentences, options, 1) for own in (ours, engine))
        compared = [
            _Line(number, ids, best[0], other[0])
            for (number, ids), best, other in zip(numbered, expected, found, strict=True)
        ]
        alike = [line for line in compared if line.alike]
        for line in alike:
            if not line.difference <= tolerance.log_prob:
                raise ModelError(_unlike(loaded, line, name, f"{line.difference:.1e} a token", tolerance.log_prob))
        largest = max([largest, *(line.difference for line in alike)])
        others = [line for line in compared if not line.alike and not _excused(loaded.model, line, options)]
        same[name] = len(compared) - len(others)
        if same[name] < tolerance.share * len(compared):
            share = f"{same[name]} of {len(compared)} the same"
            raise ModelError(_unlike(loaded, others[0], name, share, tolerance.share))
    return Parity(len(numbered), same, largest)


@torch.inference_mode()
def _excused(model: Transformer, line: _Line, options: SearchOptions) -> bool:
    """Whether two translations are both right: as probable as each other, or a beam that only the limit ended."""
    if options.beam > 1:
        limited = len(line.expected.tokens) + 1 == options.longest_output(len(line.source) + 1)
        return limited or line.difference <= EXACT.log_prob
    expected, found = [*line.expected.tokens, EOS], [*line.found.tokens, EOS]
    first = next(i for i, (one, other) in enumerate(zip(expected, found, strict=False)) if one != other)
    memory = model.encode(torch.tensor([[*line.source, EOS]]), None)
    hidden = model.decode(torch.tensor([[BOS, *expected[:first]]]), memory, None)
    logits = model.logits(hidden[0, -1])
    return abs(float(logits[expected[first]] - logits[found[first]])) <= EXACT.log_prob


def _unlike(loaded: LoadedModel, line: _Line, search: str, found: str, allowed: float) -> str:
    spell = loaded.tokenizers.target.decode
    return (
        f"line {line.number}: the exported model differs from ours, {search}: {found}, allowed {allowed:g}\n"
        f"  source    {loaded.tokenizers.source.decode(line.source)}\n"
        f"  expected  {line.expected.log_prob:.4f}  {spell(line.expected.tokens)}\n"
        f"  found     {line.found.log_prob:.4f}  {spell(line.found.tokens)}"
    )
