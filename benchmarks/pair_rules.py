"""CPU time of the rules on text for each pair of a text: all together, normalization, and each rule alone.

python benchmarks/pair_rules.py data/tatoeba-en-it/train.tsv.gz en it --held-out data/tatoeba-en-it/test.tsv
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from nmt.config import CorpusFile, Filters, LanguagePair
from nmt.text.corpus import read_pairs
from nmt.text.preparing.rules import Rules

PAIRS, REPETITIONS = 20_000, 5


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--held-out", type=Path)
    parser.add_argument("--language", action="store_true")
    options = parser.parse_args()
    languages = LanguagePair(options.source, options.target)
    raw = list(islice(read_pairs(CorpusFile(file=options.text), languages), PAIRS))
    held_out = [] if options.held_out is None else list(read_pairs(CorpusFile(file=options.held_out), languages))
    rules = Rules.learn(Filters(language=options.language), languages, raw, {"test": held_out})

    def show(name: str, apply: Callable[[str, str], object]) -> float:
        times = []
        for _ in range(REPETITIONS):
            started = time.process_time()
            for pair in raw:
                apply(pair.source, pair.target)
            times.append(time.process_time() - started)
        cost = min(times) / len(raw) * 1e6
        print(f"{name:14s} {cost:6.2f} µs")
        return cost

    show("all", rules.apply)
    normalization = replace(rules, applied=(), removes_damaged=False)
    show("normalization", normalization.apply)
    show("  and damaged", replace(normalization, removes_damaged=True).apply)
    for rule in rules.applied:
        show(f"  and {rule}", replace(normalization, applied=(rule,)).apply)


if __name__ == "__main__":
    main()
