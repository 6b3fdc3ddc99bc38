"""Write the demonstration corpus: English, Italian and Chinese triples from a small grammar."""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from pathlib import Path

from grammar import (
    templates_actions,
    templates_complex,
    templates_goods,
    templates_people,
    templates_questions,
    templates_social,
    templates_tastes,
    templates_things,
    templates_time,
)
from grammar.model import Template, Triple
from grammar.phrases import PHRASES

SEED = 20240517
HELD_OUT_SIZE = 500
MIN_TRAINING_COUNT = 3
ATTEMPTS_PER_SENTENCE = 40
LONGEST_SENTENCE = 16
DEMO_FOLDER = Path(__file__).resolve().parent / "demo"
TEMPLATES: list[tuple[int, Template]] = [
    *templates_actions.TEMPLATES,
    *templates_things.TEMPLATES,
    *templates_goods.TEMPLATES,
    *templates_people.TEMPLATES,
    *templates_tastes.TEMPLATES,
    *templates_time.TEMPLATES,
    *templates_complex.TEMPLATES,
    *templates_questions.TEMPLATES,
    *templates_social.TEMPLATES,
]


def word_forms(triple: Triple) -> set[tuple[str, str]]:
    """Return the word forms of a triple: words in English and Italian, characters in Chinese."""
    forms = {
        (language, word) for language in ("en", "it") for word in re.findall(r"[\w'-]+", getattr(triple, language))
    }
    return forms | {("zh", character) for character in triple.zh}


def compose() -> list[Triple]:
    """Compose new sentences from every template, each new in all three languages."""
    seen = {side for phrase in PHRASES for side in phrase}
    composed: list[Triple] = []
    for quota, template in TEMPLATES:
        rng = random.Random(f"{SEED} {template.__name__}")
        made = 0
        for _ in range(quota * ATTEMPTS_PER_SENTENCE):
            triple = template(rng)
            if seen.isdisjoint(triple) and len(triple.en.split()) <= LONGEST_SENTENCE:
                seen.update(triple)
                composed.append(triple)
                made += 1
            if made == quota:
                break
    return composed


def split(composed: list[Triple]) -> dict[str, list[Triple]]:
    """Hold out sentences whose word forms all stay in the training part often enough."""
    rng = random.Random(SEED)
    shuffled = rng.sample(composed, len(composed))
    counts = Counter(form for triple in (*shuffled, *PHRASES) for form in word_forms(triple))
    held_out: list[Triple] = []
    kept: list[Triple] = []
    for triple in shuffled:
        forms = word_forms(triple)
        if len(held_out) < 2 * HELD_OUT_SIZE and all(counts[form] > MIN_TRAINING_COUNT for form in forms):
            held_out.append(triple)
            counts.subtract(forms)
        else:
            kept.append(triple)
    train = [*kept, *PHRASES]
    rng.shuffle(train)
    return {"train": train, "valid": held_out[:HELD_OUT_SIZE], "test": held_out[HELD_OUT_SIZE:]}


def render(triples: list[Triple]) -> bytes:
    """Render triples as tab-separated UTF-8 lines."""
    return "".join("\t".join(triple) + "\n" for triple in triples).encode()


def build() -> dict[str, bytes]:
    """Return the contents of the three files by split name."""
    return {name: render(triples) for name, triples in split(compose()).items()}


def stale_files(contents: dict[str, bytes], folder: Path) -> list[Path]:
    """Return the files that are missing or differ from what the generator makes."""
    paths = {folder / f"{name}.tsv": content for name, content in contents.items()}
    return [path for path, content in paths.items() if not path.is_file() or path.read_bytes() != content]


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or check them; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare the files on disk instead of writing them")
    options = parser.parse_args(arguments)
    contents = build()
    if options.check:
        stale = stale_files(contents, DEMO_FOLDER)
        for path in stale:
            print(f"{path} differs from what the generator makes; run python data/generate.py", file=sys.stderr)
        return 1 if stale else 0
    DEMO_FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (DEMO_FOLDER / f"{name}.tsv").write_bytes(content)
        print(f"{name}: {content.count(bytes([10]))} triples")
    return 0


if __name__ == "__main__":
    sys.exit(main())
