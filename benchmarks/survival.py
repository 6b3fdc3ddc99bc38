"""How many URLs, placeholders and tags survive translation, plainly and with `decode.protect`, and what that costs.

python benchmarks/survival.py runs/tatoeba-en-it-cpu data/more-en-it/mozilla-www.tsv.gz --lines 300
"""

import argparse
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import sacrebleu

from nmt.config import CorpusFile, RuntimeSettings
from nmt.text.corpus import read_pairs
from nmt.text.normalize import normalize
from nmt.text.protection import compare, items, lost_numbers
from nmt.translation.translator import Translator


def main() -> None:
    """Print a row of a table for each way to translate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("tsv", type=Path, help="source<TAB>reference")
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    translator = Translator.load(arguments.model, RuntimeSettings(threads=arguments.threads))
    pairs = list(islice(read_pairs(CorpusFile(tsv=arguments.tsv)), arguments.lines))
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    wanted = sum(len(items(normalize(source))) for source in sources)
    holding = sum(bool(items(normalize(source))) for source in sources)
    numbers = sum(len(lost_numbers(source, "")) for source in sources)
    print(f"{len(pairs)} lines, {holding} with something to survive: {wanted} items; {numbers} numbers above twelve")
    print("| protect | items that survive | lines with a loss | numbers that survive | chrF | BLEU | seconds of CPU |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for protect in (False, True):
        started = time.process_time()
        options = replace(translator.options(), protect=protect)
        texts = [translation.text for translation in translator.translate(sources, options)]
        seconds = time.process_time() - started
        losses = [compare(source, text) for source, text in zip(sources, texts, strict=True)]
        kept = wanted - sum(len(loss.missing) for loss in losses)
        lost = sum(len(lost_numbers(source, text)) for source, text in zip(sources, texts, strict=True))
        print(
            f"| {'yes' if protect else 'no'} | {kept / wanted:.1%} | {sum(map(any, losses))} "
            f"| {(numbers - lost) / numbers:.1%} | {sacrebleu.corpus_chrf(texts, [references]).score:.2f} "
            f"| {sacrebleu.corpus_bleu(texts, [references]).score:.2f} | {seconds:.1f} |"
        )


if __name__ == "__main__":
    main()
