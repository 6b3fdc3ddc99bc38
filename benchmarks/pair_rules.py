"""CPU time of the rules on text for each pair of a text: all together, normalization, and each rule alone.

python benchmarks/pair_rules.py data/tatoeba-en-it/train.tsv.gz en it --held-out data/tatoeba-en-it/test.tsv
"""

import argparse
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from nmt.config import CorpusFile, Filters, LanguagePair
from nmt.text.corpus import SentencePair, read_pairs
from nmt.text.filters import HeldOutText, PairFilter
from nmt.text.filters.damage import damage

PAIRS, REPETITIONS = 20_000, 5


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--held-out", type=Path)
    options = parser.parse_args()
    languages = LanguagePair(options.source, options.target)
    raw = list(islice(read_pairs(CorpusFile(file=options.text), languages), PAIRS))
    held_out = [] if options.held_out is None else list(read_pairs(CorpusFile(file=options.held_out), languages))
    rules = PairFilter.learn(Filters(), languages, raw, [HeldOutText("test", held_out)])
    verdicts = [rules.apply(pair.source, pair.target) for pair in raw]
    pairs = [SentencePair(one.source, one.target) for one in verdicts if one.rule is None]

    def show(name: str, texts: list[SentencePair], function: Callable[[str, str], object]) -> None:
        times = []
        for _ in range(REPETITIONS):
            started = time.process_time()
            for pair in texts:
                function(pair.source, pair.target)
            times.append(time.process_time() - started)
        print(f"{name:14s} {min(times) / len(texts) * 1e6:6.2f} µs")

    show("all", raw, rules.apply)
    show("normalization", raw, lambda source, target: (rules.normalize_source(source), rules.normalize_target(target)))
    show("damaged", raw, lambda source, target: damage(source) or damage(target))
    for rule, check in rules.checks.items():
        show(rule, pairs, check)


if __name__ == "__main__":
    main()
