"""Share of the items that translations keep, with and without `decode.protect`, and its cost.

python benchmarks/required_phrases.py runs/tatoeba-en-it-cpu data/more-en-it/mozilla-www.tsv.gz --lines 300
"""

import argparse
import time
from itertools import islice
from pathlib import Path

import sacrebleu

from nmt.config import CorpusFile
from nmt.text.content import content_diff, lost_numbers
from nmt.text.corpus import read_pairs
from nmt.text.items import read
from nmt.translation.translator import Translator


def main() -> None:
    """Print a row of a table for each setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("tsv", type=Path, help="source<TAB>reference")
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    translator = Translator.load(arguments.model, threads=arguments.threads)
    pairs = list(islice(read_pairs(CorpusFile(file=arguments.tsv), None), arguments.lines))
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    required = sum(len(read(source).items) for source in sources)
    with_items = sum(bool(read(source).items) for source in sources)
    numbers = sum(len(lost_numbers(source, "")) for source in sources)
    print(f"{len(pairs)} lines, {with_items} with items: {required} items; {numbers} numbers above twelve")
    print("| protect | items kept | lines that differ | numbers kept | chrF | BLEU | seconds of CPU |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for protect in ("false", "true"):
        started = time.process_time()
        options = translator.options(overrides=[f"decode.protect={protect}"])
        texts = [translation.text for translation in translator.translate(sources, options)]
        seconds = time.process_time() - started
        differences = [content_diff(source, text) for source, text in zip(sources, texts, strict=True)]
        kept = required - sum(len(difference.missing) for difference in differences)
        lost = sum(len(lost_numbers(source, text)) for source, text in zip(sources, texts, strict=True))
        print(
            f"| {protect} | {share(kept, required)} | {sum(map(any, differences))} "
            f"| {share(numbers - lost, numbers)} | {sacrebleu.corpus_chrf(texts, [references]).score:.2f} "
            f"| {sacrebleu.corpus_bleu(texts, [references]).score:.2f} | {seconds:.1f} |"
        )


def share(part: int, whole: int) -> str:
    """Return a part as a percentage."""
    return f"{part / whole:.1%}" if whole else "none in the text"


if __name__ == "__main__":
    main()
