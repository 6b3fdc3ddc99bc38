"""What `nmt init` proposes: settings that fit the size of a text and a device, and pairs to hold out.

Each setting has its reason. They follow published experiments with little text (Sennrich & Zhang 2019, "Revisiting
Low-Resource Neural Machine Translation: A Case Study"; Araabi & Monz 2020, "Optimizing Transformer for Low-Resource
Neural Machine Translation") and our own measurements (benchmarks/RESULTS.md). The model is not smaller for the smallest
texts: as in the second paper, 3+3 layers of dim 256 are better than 2+2 layers of dim 128, even with 2,000 pairs.

The pairs with the lowest digests are held out for validation and test. So the choice depends neither on the order of
the text nor on its direction. The text itself is not changed: the rule `leak` removes pairs with these sentences from
the training text. No sentence is chosen twice, nor one that many pairs share, since all of these would be lost for
training.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from nmt.config import ModelSettings, TokenizerSettings
from nmt.text.languages import UNSPACED
from nmt.text.preparing.rules import damage, letters
from nmt.text.readers import SentencePair
from nmt.text.tokenizer import proposed_size

TINY, SMALL, BASE = "tiny", "small", "base"
_MEASURED = "the size that we measured on CPUs with 2,000 to 306,000 pairs of Tatoeba; with 2,000 smaller is worse"
_MODELS = {  # layers on each side, dim, feed_forward, heads, the reason
    TINY: (2, 128, 512, 4, "small, so that the whole text is read several times in the given minutes"),
    SMALL: (3, 256, 1024, 4, _MEASURED),
    BASE: (6, 512, 2048, 8, "the base model of Vaswani et al. 2017"),
}
_REASON_OF_POSITIONS = (
    "rotary positions (Su et al. 2021) gained 0.4 to 1.3 BLEU on validation texts of Tatoeba; remove them for nmt "
    "export to Hugging Face transformers"
)
# The highest rate in our recipes; it falls with the root of the width, as in the paper.
_RATE_OF_DIM_256 = 1.5e-3
_BASE_TOKENS = 1_000_000  # target tokens from which a GPU trains the base model of the paper
# Passes over a text of so many target tokens (24,000 pairs of Tatoeba en-zh still improved after 12), and the exponent
# with which they decrease with the size of the text.
_PASSES, _PASSES_TOKENS, _PASSES_POWER = 20.0, 240_000, 0.4
_FEWEST_PASSES, _MOST_PASSES = 3.0, 80.0
_GPU_PASSES = 2.0  # factor: a GPU makes more passes in the same time, and patience ends the training
_FULL = 0.93  # share of a batch that is no padding
_VALIDATIONS, _FEWEST_VALIDATIONS = 15, 3  # with a time limit one per minute, within these limits
_LEAST_SHARE = 0.3  # the time must suffice for this share of the proposed steps, else the model is TINY
_PATIENCE = 5


class Setting(NamedTuple):
    """A value of the recipe, as YAML, and the reason for it, if there is one: paragraphs of a comment."""

    value: str
    reason: str = ""


class Proposal(NamedTuple):
    """The settings that depend on the text and the device."""

    model: ModelSettings
    batch_tokens: int
    steps: int
    operations: float  # floating-point operations of the whole training
    settings: dict[str, Setting]  # by the key in the recipe, such as `train.schedule`


def operations(model: ModelSettings, vocabulary: int, source_tokens: float, target_tokens: float) -> float:
    """Return the floating-point operations of training: 6 for each weight and token, 2 forward and 4 backward.

    The encoder's weights count with source tokens, the decoder's and the output's with target tokens. Attention scores
    and padding are not counted.
    """
    encoder, decoder = model.layer_weights
    return 6 * (encoder * source_tokens + (decoder + vocabulary * model.dim) * target_tokens)


def propose(
    tokens: tuple[int, int], vocabulary: int, device: str, rate: float = 0.0, minutes: float | None = None
) -> Proposal:
    """Return the settings for a text of `tokens` (source, target) tokens on a device of type cpu, cuda or mps.

    With `minutes`, for a training of this time at `rate` floating-point operations per second.
    """
    name = BASE if device == "cuda" and tokens[1] >= _BASE_TOKENS else SMALL
    proposal = _proposal(name, tokens, vocabulary, device)
    if minutes is None:
        return proposal
    if minutes * 60 * rate < _LEAST_SHARE * proposal.operations:
        name, proposal = TINY, _proposal(TINY, tokens, vocabulary, device)
    steps = max(1, round(proposal.steps * min(1.0, minutes * 60 * rate / proposal.operations)))
    return _proposal(name, tokens, vocabulary, device, (minutes, steps))


def _proposal(
    name: str, tokens: tuple[int, int], vocabulary: int, device: str, limit: tuple[float, int] | None = None
) -> Proposal:
    """Return the settings for a model; `limit` is a time in minutes and the estimated number of its steps."""
    target = tokens[1]
    layers, dim, feed_forward, heads, why = _MODELS[name]
    dropout, reason_of_dropout = _dropout(name, target)
    shape: dict[str, object] = {"encoder_layers": layers, "decoder_layers": layers, "dim": dim}
    shape |= {"feed_forward": feed_forward, "heads": heads, "positions": "rotary", "dropout": dropout}
    model = ModelSettings.model_validate(shape)
    batch, reason_of_batch = _batch_tokens(name, target, device)
    most_passes = _PASSES * (_PASSES_TOKENS / target) ** _PASSES_POWER * (_GPU_PASSES if device == "cuda" else 1)
    most_steps = _round(max(100, min(max(most_passes, _FEWEST_PASSES), _MOST_PASSES) * target / (batch * _FULL)))
    minutes, steps = limit or (None, most_steps)
    validations = _VALIDATIONS if minutes is None else min(_VALIDATIONS, max(_FEWEST_VALIDATIONS, minutes))
    warmup, rate = _round(min(steps / 5, 4000 if name == BASE else 400)), _RATE_OF_DIM_256 * math.sqrt(256 / dim)
    every = max(10, _round(steps / validations))
    passes = steps * batch * _FULL / target
    settings = {
        "model": Setting(
            f"{{{', '.join(f'{key}: {value}' for key, value in shape.items())}}}",
            f"{model.weight_count(vocabulary, vocabulary) / 1e6:.1f} million weights for {target:,} target "
            f"tokens; {why}. {reason_of_dropout}\n{_REASON_OF_POSITIONS}",
        ),
        "train.batch_tokens": Setting(
            str(batch), f"{target:,} target tokens are a pass over the text\n{reason_of_batch}"
        ),
        "train.schedule": Setting(
            f"{{name: wsd, rate: {rate:.2g}, warmup: {warmup}, decay: 0.7, floor: 0.05}}",
            "the rate rises during the first fifth of the steps (at most 400, or 4,000 for the base model) and falls "
            "over the last 70 %: in our measurements 1.3 BLEU better than the schedule of the paper with the same peak",
        ),
        "train.stop": Setting(
            f"{{steps: {most_steps}, {'' if minutes is None else f'minutes: {minutes:g}, '}patience: {_PATIENCE}}}",
            f"passes over the text: about {passes:.{int(passes < 10)}f}; a small text needs more. Patience ends it "
            f"after {_PATIENCE} validations without a better BLEU",
        ),
        "train.validate_every": Setting(
            str(every), f"validations: about {steps / every:.0f}; the best checkpoint is kept"
        ),
    }
    trained = passes * tokens[0], passes * target
    return Proposal(model, batch, steps, operations(model, vocabulary, *trained), settings)


def _dropout(name: str, tokens: int) -> tuple[float, str]:
    """Return the dropout, from 0.3 for little text (both papers) to 0.1 for much (Vaswani et al.), and the reason."""
    if name == TINY:
        return 0.0, "Without dropout: so few passes over the text hardly overfit"
    # in the trainings that were measured, with 200,000 and 275,000 tokens, 0.2 is better than 0.3
    most, middle = (20_000_000, 4_000_000) if name == BASE else (2_500_000, 200_000)
    if tokens >= most:
        return 0.1, "Dropout 0.1 as in the paper: there is enough text"
    dropout = 0.2 if tokens >= middle else 0.3
    return dropout, f"Dropout {dropout} against overfitting (Sennrich & Zhang 2019, Araabi & Monz 2020)"


def _batch_tokens(name: str, tokens: int, device: str) -> tuple[int, str]:
    """Return the size of a batch, and the reason."""
    if name == BASE or (tokens >= _BASE_TOKENS and device == "cuda"):
        return 16_384 if name == BASE and tokens >= 20_000_000 else 8192, "large batches keep the GPU busy"
    reason = "small batches give more updates in each pass over the text (Sennrich & Zhang 2019, and measured)"
    return 1024 if tokens < 100_000 else 2048, reason


def _round(number: float) -> int:
    """Return a number rounded to two significant digits."""
    scale: int = 10 ** max(0, int(math.log10(max(1, number))) - 1)
    return max(1, round(number / scale) * scale)


# a and b: a piece has a·ln(pieces of several characters) + b characters. The medians measured on Tatoeba en-it with 400
# to 8,000 pieces are within 10 % of this.
_SPACED = (0.47, -0.59)
_UNSPACED_CHARACTERS = 1.4  # characters in a piece of Chinese, with 5,000 pieces on Tatoeba en-zh
_LEAST_CHARACTERS = 1.2


def characters_in_a_token(text: str, vocabulary: int, alphabet: int) -> float:
    """Return the estimated characters of a token, for a vocabulary size and a number of different characters."""
    unspaced = len(re.findall(f"[{UNSPACED}]", text)) / max(1, len(text))
    several = max(2, vocabulary - 260 - alphabet)
    spaced = max(_LEAST_CHARACTERS, _SPACED[0] * math.log(several) + _SPACED[1])
    return unspaced * _UNSPACED_CHARACTERS + (1 - unspaced) * spaced


class TextProfile:
    """The numbers of pairs and characters of a text, counted while it is read, and a sample of it."""

    def __init__(self) -> None:
        # All pairs, those with an empty side, and those that are trained on: without repetitions, estimated.
        self.pairs = self.empty = self.distinct = 0
        # Of the source and the target side of the distinct pairs.
        self.characters = [0, 0]
        self.sample: list[SentencePair] = []

    def counting(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Yield the pairs without an empty side, and count all."""
        for pair in pairs:
            self.pairs += 1
            if pair.source.strip() and pair.target.strip():
                self.characters[0] += len(pair.source)
                self.characters[1] += len(pair.target)
                yield pair
            else:
                self.empty += 1
        self.distinct = self.pairs - self.empty

    def without_repetitions(self, sample: list[SentencePair], distinct: list[SentencePair]) -> None:
        """Scale the numbers by the share of distinct pairs in a sample, and keep these pairs as the sample."""
        share = len(distinct) / max(1, len(sample))
        self.sample, self.distinct = distinct, round(self.distinct * share)
        self.characters = [round(count * share) for count in self.characters]

    def tokens(self) -> tuple[int, tuple[int, int]]:
        """Return about how many pieces `vocab_size: auto` will choose, and how many tokens each side has."""
        sides = ["".join(pair.source for pair in self.sample), "".join(pair.target for pair in self.sample)]
        alphabet = Counter("".join(sides))
        vocabulary = proposed_size(sum(self.characters), alphabet, TokenizerSettings())
        source, target = (
            round(count / characters_in_a_token(side, vocabulary, len(alphabet))) + self.distinct
            for count, side in zip(self.characters, sides, strict=True)
        )
        return vocabulary, (source, target)


SHARE = 20  # a held-out text has at most one of this many pairs
LARGEST, LARGEST_OF_MILLIONS = 1_000, 2_000  # pairs in a held-out text; the second number from a million pairs
MOST_PAIRS = 8  # the most pairs of the text that may contain a held-out sentence
_LONGEST = 1_000  # characters of a sentence that is held out
_CANDIDATES_A_PAIR = 4  # since some of them share sentences with others
_CANDIDATES = _CANDIDATES_A_PAIR * 2 * LARGEST_OF_MILLIONS
_BREAK = re.compile(r"[\t\r\n]")  # not possible in TSV


def held_out_size(pairs: int) -> int:
    """Return how many of `pairs` pairs are held out for validation, and as many for the test.

    >>> [held_out_size(pairs) for pairs in (500, 5_000, 50_000, 5_000_000)]
    [25, 250, 1000, 2000]
    """
    return min(pairs // SHARE, LARGEST_OF_MILLIONS if pairs >= 1_000_000 else LARGEST)


def candidates(pairs: Iterable[SentencePair], held_out: int = 0) -> list[SentencePair]:
    """Return the pairs with the lowest digests, in their order: a random sample, from which to choose `held_out` pairs.

    RAM does not grow with the text.
    """
    return heapq.nsmallest(max(_CANDIDATES, _CANDIDATES_A_PAIR * held_out), pairs, key=_digest)


def distinct(sample: Iterable[SentencePair]) -> list[SentencePair]:
    """Return the pairs of a sample without repetitions: the first of all pairs with the same letters.

    All copies of a pair have the same digest, so the lowest digests are those of a random sample of different pairs.
    """
    return list({_digest(pair)[0]: pair for pair in reversed([*sample])}.values())[::-1]


def _suits(pair: SentencePair) -> bool:
    """Whether a pair can be held out: both sides with letters, different, not long, in one cell of TSV, undamaged."""
    sides = (pair.source, pair.target)
    texts = {letters(side) for side in sides}
    if len(texts) == 1 or "" in texts:
        return False
    return all(len(side) <= _LONGEST and not _BREAK.search(side) and not damage(side) for side in sides)


def _digest(pair: SentencePair) -> tuple[bytes, list[str]]:
    """Return a digest of the letters of both sides, in any order, and the sides, which order pairs of equal digests."""
    keys = sorted((letters(pair.source), letters(pair.target)))
    return blake2b("\n".join(keys).encode(), digest_size=8).digest(), sorted((pair.source, pair.target))


def choose(
    chosen_from: Sequence[SentencePair], pairs: Iterable[SentencePair], others: Iterable[SentencePair]
) -> Iterator[SentencePair]:
    """Yield the candidates that can be held out: suitable ones, without sentences of many pairs.

    None shares a sentence with another one or with `others`, the pairs of texts that are held out already.
    """
    frequency = Counter({letters(side): 0 for pair in chosen_from for side in (pair.source, pair.target)})
    for pair in pairs:
        frequency.update({letters(pair.source), letters(pair.target)} & frequency.keys())
    taken = {letters(side) for pair in others for side in (pair.source, pair.target)}
    for pair in filter(_suits, chosen_from):
        sides = {letters(pair.source), letters(pair.target)}
        if not sides & taken and all(frequency[side] <= MOST_PAIRS for side in sides):
            taken |= sides
            yield pair
