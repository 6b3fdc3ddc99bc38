"""CPU time of TER by sacreBLEU and by `nmt.evaluation.ter`, in turn; their values must be equal.

python benchmarks/ter.py HYP REF --lines 300
"""

import argparse
import time
from itertools import islice
from pathlib import Path
from statistics import median

from sacrebleu.metrics import TER

from nmt.evaluation.ter import BatchedTER
from nmt.text.languages import detect_language
from nmt.text.readers.opening import read_lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hypotheses", type=Path)
    parser.add_argument("references", type=Path)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    hypotheses, references = (
        list(islice(read_lines(path), arguments.lines)) for path in (arguments.hypotheses, arguments.references)
    )
    unspaced = detect_language(references).unspaced
    seconds: dict[str, list[float]] = {"sacreBLEU": [], "nmt": []}
    scores = set()
    for _ in range(arguments.rounds):
        for name, metric in (("sacreBLEU", TER), ("nmt", BatchedTER)):
            started = time.process_time()
            scores.add(metric(normalized=unspaced, asian_support=unspaced).corpus_score(hypotheses, [references]).score)
            seconds[name].append(time.process_time() - started)
    assert len(scores) == 1, f"the values differ: {scores}"
    middle = {name: median(values) for name, values in seconds.items()}
    print(f"{len(hypotheses):,} lines: " + ", ".join(f"{name} {value:.2f} s" for name, value in middle.items()))
    print(f"ratio {middle['sacreBLEU'] / middle['nmt']:.1f}, TER {scores.pop():.2f}")


if __name__ == "__main__":
    main()
