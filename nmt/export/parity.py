"""Check that an exported model translates as the original does.

Both translate the same lines, by greedy search and with a beam of 4, ranked by log-probability without normalization
and with no token forbidden, so that both searches are the same. Each sentence is a batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from nmt.config import RuntimeSettings
from nmt.decoding.beam import Hypothesis
from nmt.decoding.engine import TorchEngine
from nmt.decoding.options import SearchOptions
from nmt.errors import DataError, ModelError
from nmt.model.checkpoint import LoadedModel
from nmt.model.transformer import Transformer
from nmt.text.normalize import normalize
from nmt.text.tokenizer import BOS, EOS

Search = Callable[[Sequence[Sequence[int]], SearchOptions], list[list[Hypothesis]]]

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
_LONGEST = 100  # tokens of a line that are translated


@dataclass(frozen=True)
class Tolerance:
    """The differences that are allowed."""

    log_prob: float  # largest difference of the log-probabilities of a translation, per token
    fraction: float  # smallest fraction of lines with the same translation
    advice: str = ""  # if a difference is larger


EXACT = Tolerance(1e-4, 1.0)  # for fp32, where only the order of sums differs
ROUNDED = Tolerance(
    0.1,
    0.5,
    "Weights of fewer bits change translations, most of all int8 on processors without VNNI, where sums of 8-bit "
    "products are cut off at 16 bits; --quantization float16 changes them less, float32 not at all",
)


@dataclass(frozen=True)
class Parity:
    """The result of the comparison."""

    lines: int
    same: dict[str, int]  # number of lines with the same translation, for each search
    difference: float  # largest difference of log_prob per token, over equal translations

    def __str__(self) -> str:
        same = ", ".join(f"{count} of {self.lines} {search}" for search, count in self.same.items())
        return f"the same translation: {same}; log_prob differs by up to {self.difference:.1e} a token"


@dataclass(frozen=True)
class _Line:
    """The translations of one line by both models."""

    number: int
    source: list[int]
    expected: Hypothesis
    found: Hypothesis

    @property
    def is_same(self) -> bool:
        return self.expected.tokens == self.found.tokens

    @property
    def difference(self) -> float:
        """The difference of the log-probabilities, per token."""
        return abs(self.expected.log_prob - self.found.log_prob) / (len(self.expected.tokens) + 1)


def check_parity(loaded: LoadedModel, exported: Search, lines: Sequence[str], tolerance: Tolerance) -> Parity:
    """Translate all non-empty lines with both. Raises ModelError with the first line that differs too much."""
    original = TorchEngine([loaded.model], RuntimeSettings(device="cpu", precision="fp32"))
    limit = _LONGEST if original.longest is None else min(_LONGEST, original.longest - 1)
    source = loaded.tokenizers.source
    # with several target languages, each line is translated into one of them
    tags = [source.tag_ids([loaded.languages.target_tag(code)]) for code in loaded.languages.target]
    numbered = [
        (number, [*tags[number % len(tags)], *source.encode(line)][:limit])
        for number, line in enumerate(lines, start=1)
        if normalize(line)
    ]
    if not numbered:
        raise DataError("--lines: every line is empty; expected sentences to compare translations of")
    same, largest = {}, 0.0
    for name, beam in (("greedy", 1), ("with a beam of 4", 4)):
        options = SearchOptions(beam=beam, length_penalty=0.0, forbidden=(), batch_tokens=1)
        sentences = [ids for _, ids in numbered]
        expected, found = (search(sentences, options) for search in (original.search, exported))
        compared = [
            _Line(number, ids, best[0], other[0])
            for (number, ids), best, other in zip(numbered, expected, found, strict=True)
        ]
        same_lines = [line for line in compared if line.is_same]
        for line in same_lines:
            if not line.difference <= tolerance.log_prob:
                problem = f"{name}: {line.difference:.1e} a token, allowed {tolerance.log_prob:g}"
                raise ModelError(_message(loaded, line, problem, tolerance.advice))
        largest = max([largest, *(line.difference for line in same_lines)])
        others = [line for line in compared if not line.is_same and not _is_tie(loaded.model, line, options)]
        same[name] = len(compared) - len(others)
        if same[name] < tolerance.fraction * len(compared):
            problem = f"{name}: {same[name]} of {len(compared)} the same, allowed {tolerance.fraction:g}"
            raise ModelError(_message(loaded, others[0], problem, tolerance.advice))
    return Parity(len(numbered), same, largest)


@torch.inference_mode()
def _is_tie(model: Transformer, line: _Line, options: SearchOptions) -> bool:
    """Return whether both translations are correct: equally probable, or of a beam that ended at the length limit."""
    if options.beam > 1:
        limited = len(line.expected.tokens) + 1 == options.longest_output(len(line.source) + 1)
        return limited or line.difference <= EXACT.log_prob
    expected, found = [*line.expected.tokens, EOS], [*line.found.tokens, EOS]
    first = next(i for i, (one, other) in enumerate(zip(expected, found, strict=False)) if one != other)
    memory = model.encode(torch.tensor([[*line.source, EOS]]), None)
    hidden = model.decode(torch.tensor([[BOS, *expected[:first]]]), memory, None)
    logits = model.logits(hidden[0, -1])
    return abs(float(logits[expected[first]] - logits[found[first]])) <= EXACT.log_prob


def _message(loaded: LoadedModel, line: _Line, problem: str, advice: str) -> str:
    spell = loaded.tokenizers.target.decode
    shown = (
        f"line {line.number}: the exported model differs from the original, {problem}\n"
        f"  source    {loaded.tokenizers.source.decode(line.source)}\n"
        f"  expected  {line.expected.log_prob:.4f}  {spell(line.expected.tokens)}\n"
        f"  found     {line.found.log_prob:.4f}  {spell(line.found.tokens)}"
    )
    return f"{shown}\n{advice}" if advice else shown
