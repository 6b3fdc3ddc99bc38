"""Check that an exported model computes what the original does: the log-probabilities of the same translations.

The original translates some lines by greedy search. Both then compute the log-probability of each token of these
translations by teacher forcing: where all agree, the two are the same function, whatever search uses it.
"""

from collections.abc import Callable, Sequence

from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Pair
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import DataError, ModelError
from nmt.model.stored import LoadedModel
from nmt.text.normalize import normalize

# The exported model: returns the log-probability of each target token and of `</s>`, for pairs of ids.
Score = Callable[[Sequence[Pair]], list[list[float]]]

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
# The largest mean difference per token of a line: in fp32 only the order of sums differs, other types round.
EXACT, ROUNDED = 1e-4, 0.1
_ADVICE = (
    "\nWeights of fewer bits change probabilities, most of all int8 on processors without VNNI, where sums of 8-bit "
    "products are cut off at 16 bits; --quantization float16 changes them less, float32 not at all"
)
_LONGEST = 100  # tokens of a line that are translated


def compare_exported(loaded: LoadedModel, exported: Score, lines: Sequence[str], allowed: float) -> tuple[int, float]:
    """Compare on all lines that are not empty; return their number, and the largest mean difference a token of a line.

    Raises ModelError with the line that differs most, if by too much.
    """
    engine = TorchEngine([loaded.model])
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    # with several target languages, each line is translated into one of them
    tags = [source.tag_ids([loaded.languages.target_tag(code)]) for code in loaded.languages.target]
    numbers = [number for number, line in enumerate(lines, start=1) if normalize(line)]
    if not numbers:
        raise DataError("--lines: every line is empty; expected sentences to compare log-probabilities of")
    most = min(_LONGEST, loaded.settings.longest - 1)
    sources = [[*tags[number % len(tags)], *source.encode(lines[number - 1])][:most] for number in numbers]
    options = SearchOptions(beam=1)
    hypotheses = engine.search(sources, options)
    pairs = [(ids, best.tokens) for ids, (best,) in zip(sources, hypotheses, strict=True)]
    expected = [forced.token_log_probs for forced in engine.force(pairs, options.batch_tokens)]
    scored = exported(pairs)
    differences = [
        sum(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / len(ours)
        for ours, theirs in zip(expected, scored, strict=True)
    ]
    worst = max(range(len(pairs)), key=lambda i: (differences[i] != differences[i], differences[i]))  # NaN first
    if not differences[worst] <= allowed:
        raise ModelError(
            f"line {numbers[worst]}: the log-probabilities of the exported model differ from those of the original by "
            f"{differences[worst]:.1e} a token, allowed {allowed:g}; nothing is written\n"
            f"  source       {source.decode(pairs[worst][0])}\n"
            f"  translation  {target.decode(pairs[worst][1])}\n"
            f"  log_prob     {sum(expected[worst]):.4f}, exported {sum(scored[worst]):.4f}"
            + (_ADVICE if allowed > EXACT else "")
        )
    return len(pairs), differences[worst]
