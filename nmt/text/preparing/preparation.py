"""Prepare a corpus: from text files to a tokenizer and token ids, in stages.

1. filter    normalize all pairs and apply the rules on text; in worker processes, chunk by chunk
2. repeated  find pairs that repeat earlier ones, by their digests
3. tokenizer train it on a sample (fine-tuning takes the initial model's tokenizer)
4. encode    token ids, and the rules on tokens; in worker processes, chunk by chunk
5. join      the chunks in order, into the prepared corpus

RAM does not depend on the size of the text: chunks, digests and token ids are on disk, in a work directory that also
lets an interrupted preparation continue, and several machines share it. Nothing is random: the same text and settings
give the same corpus for any number of processes and machines, so runs with different seeds can share one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice
from pathlib import Path
from typing import get_args

from nmt.config import CorpusFile, Filters, LanguagePair, Recipe, RuleName
from nmt.system.console import Console
from nmt.text.auditing.audit import make_audit, recipe_findings
from nmt.text.auditing.audit_report import settings_shown, write_report
from nmt.text.corpus import SentencePair, pairs_of, read_pairs
from nmt.text.filters import HeldOutText, PairFilter
from nmt.text.manifest import FileDigest, Manifest
from nmt.text.normalize import normalize
from nmt.text.prepared import write_valid_texts
from nmt.text.preparing import provenance
from nmt.text.preparing.chunk_files import is_whole, kept_file
from nmt.text.preparing.length_limit import length_limit
from nmt.text.preparing.overlap import Overlap, OverlapCounter
from nmt.text.preparing.stages import (
    Filtered,
    Shard,
    Text,
    encode_chunks,
    filter_chunks,
    find_repetitions,
    join_chunks,
    make_tokenizers,
    summary,
)

_NO_FILTERS = Filters(max_ratio=1e9, keep=get_args(RuleName))
"""For the validation text, which must be like what users send: only pairs without a loss are left out."""
_LEARNED_FROM, _FIRST_PAIRS = (
    20_000,
    400_000,
)  # pairs from which the rules learn at least, and among how many first ones


def write_corpus(recipe: Recipe, work: Path, directory: Path, console: Console) -> Manifest:
    """Write the prepared corpus of a recipe into an empty directory.

    `work` is a directory for temporary files; what an interrupted preparation left there is used. Raises DataError with
    file and line for text that cannot be read, ConfigError for a tokenizer that cannot be made.
    """
    inputs = provenance.record(provenance.input_files(recipe))
    test_inputs = provenance.record(provenance.files_of_test_text(recipe))
    valid_texts = [pairs_of(recipe, [corpus]) for corpus in recipe.data.valid]
    valid_pairs, test_pairs = list(chain.from_iterable(valid_texts)), pairs_of(recipe, recipe.data.test)
    text = training_text(recipe, work, valid_pairs, test_pairs, console)

    filtered = summary(text, filter_chunks(text))
    repeated = find_repetitions(text, filtered)
    tokenizers = make_tokenizers(text, work, filtered, repeated)
    encode_chunks(text, filtered, repeated, tokenizers)
    tokenizers.save(directory)
    train, lengths = join_chunks(text, filtered, tokenizers, directory / "train")

    overlaps = find_overlaps(filtered, valid_pairs, test_pairs, "training")
    valid, counts = None, filtered.counts
    if recipe.data.valid:
        write_valid_texts(directory, valid_texts)
        valid_text = validation_text(recipe, work, test_pairs, console)
        valid_filtered = summary(valid_text, filter_chunks(valid_text))
        encode_chunks(valid_text, valid_filtered, {}, tokenizers)
        valid, _ = join_chunks(valid_text, valid_filtered, tokenizers, directory / "valid")
        overlaps += find_overlaps(valid_filtered, [], test_pairs, "validation")
        counts = [*counts, *valid_filtered.counts]
    provenance.check_unchanged((*inputs.values(), *test_inputs.values()))

    found = recipe_findings(recipe, (HeldOutText("validation", valid_pairs), HeldOutText("test", test_pairs)))
    audit = make_audit(recipe, counts, found, overlaps, text.rules)
    audit.write(directory)
    write_report(audit, directory, settings_shown(recipe))
    written = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    manifest = Manifest(
        provenance.recorded_settings(recipe),
        provenance.digests(inputs),
        (len(tokenizers.source), len(tokenizers.target)),
        train,
        valid,
        length_limit(*lengths),
        provenance.digests(test_inputs),
        overlaps,
        {str(path.relative_to(directory)): FileDigest.of(path) for path in written},
        provenance.versions(),
    )
    provenance.write_inputs(directory, {**inputs, **test_inputs})
    manifest.write(directory)
    return manifest


def prepare_shard(
    recipe: Recipe, work: Path, shard: Shard, console: Console, alone: Callable[[], AbstractContextManager[None]]
) -> bool:
    """Do the stages of a shard of the training text; return whether its chunks are encoded.

    They are not if other shards have not applied the rules on text yet: repetitions and the tokenizer depend on the
    whole text. Then the same call, made later, continues. Within `alone()` no other process works on the corpus.
    """
    valid, test = pairs_of(recipe, recipe.data.valid), pairs_of(recipe, recipe.data.test)
    text = training_text(recipe, work, valid, test, console)
    chunks = filter_chunks(text, shard)
    if not all(is_whole(kept_file(text.folder, number)) for number in range(chunks)):
        return False
    filtered = summary(text, chunks)
    repeated = find_repetitions(text, filtered)
    with alone():
        tokenizers = make_tokenizers(text, work, filtered, repeated)
    encode_chunks(text, filtered, repeated, tokenizers, shard)
    return True


def training_text(
    recipe: Recipe, work: Path, valid: Sequence[SentencePair], test: Sequence[SentencePair], console: Console
) -> Text:
    """Return the training text with its rules."""
    held_out = (HeldOutText("validation", valid), HeldOutText("test", test))
    corpora_of: dict[LanguagePair, list[CorpusFile]] = {}
    for corpus in recipe.data.train:
        corpora_of.setdefault(recipe.languages_of(corpus), []).append(corpus)
    learned = {
        languages: PairFilter.learn(recipe.data.filters, languages, _first_pairs(recipe, corpora), held_out)
        for languages, corpora in corpora_of.items()
    }
    rules = tuple(learned[recipe.languages_of(corpus)] for corpus in recipe.data.train)
    sources = frozenset(normalize(pair.source) for text in held_out for pair in text.pairs)
    return Text(work / "train", recipe.data.train, rules, sources, recipe, console)


def validation_text(recipe: Recipe, work: Path, test: Sequence[SentencePair], console: Console) -> Text:
    """Return the validation text, of which only pairs without a loss are left out."""
    filters = _NO_FILTERS.model_copy(update={"max_tokens": recipe.data.filters.max_tokens})
    sources = frozenset(normalize(pair.source) for pair in test)
    rules = tuple(PairFilter.learn(filters, recipe.languages_of(corpus)) for corpus in recipe.data.valid)
    return Text(work / "valid", recipe.data.valid, rules, sources, recipe, console)


def _first_pairs(recipe: Recipe, corpora: Sequence[CorpusFile]) -> list[SentencePair]:
    """Return normalized pairs from which the rules learn, evenly spread over the first ones of each corpus."""
    sample = []
    for corpus in corpora:
        chosen: list[SentencePair] = []
        step = 1
        first = islice(read_pairs(corpus, recipe.languages_of(corpus)), _FIRST_PAIRS // len(corpora))
        for number, pair in enumerate(first):
            if number % step == 0:
                chosen.append(pair)
            if len(chosen) * len(corpora) > 2 * _LEARNED_FROM:
                chosen, step = chosen[::2], 2 * step
        sample += [SentencePair(normalize(pair.source), normalize(pair.target)) for pair in chosen]
    return sample


def find_overlaps(
    filtered: Filtered, valid: Sequence[SentencePair], test: Sequence[SentencePair], within: str
) -> tuple[Overlap, ...]:
    """Return how many sentences of the held-out texts occur in a text."""
    return _overlaps(filtered.held_out, {"validation": valid, "test": test}, within)


def _overlaps(
    pairs: Iterable[tuple[str, str]], held_out: dict[str, Sequence[SentencePair]], within: str
) -> tuple[Overlap, ...]:
    counters = [OverlapCounter(name, within, text) for name, text in held_out.items() if text]
    for source, target in pairs:
        for counter in counters:
            counter.add(source, target)
    return tuple(counter.overlap() for counter in counters)


def count_overlaps(recipe: Recipe, console: Console) -> tuple[Overlap, ...]:
    """Return the overlaps of all texts of a recipe, read for that alone."""
    valid, test = pairs_of(recipe, recipe.data.valid), pairs_of(recipe, recipe.data.test)
    with console.progress("comparing the texts", None, "pairs") as advance:

        def training() -> Iterator[tuple[str, str]]:
            for corpus in recipe.data.train:
                for pair in read_pairs(corpus, recipe.languages_of(corpus)):
                    advance(1)
                    yield normalize(pair.source), normalize(pair.target)

        found = _overlaps(training(), {"validation": valid, "test": test}, "training")
    own = ((normalize(pair.source), normalize(pair.target)) for pair in valid)
    return found + (_overlaps(own, {"test": test}, "validation") if valid else ())
