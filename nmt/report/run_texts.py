"""The texts of a run with its translations: the test text as the run wrote it, the validation text translated now."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

from nmt.config import Recipe, RuntimeSettings
from nmt.errors import DataError, NMTError
from nmt.evaluation.word_counts import count_words
from nmt.report.quality_section import TranslatedText
from nmt.report.run_records import RunRecords
from nmt.text.corpus import SentencePair, read_pairs
from nmt.text.languages import target_language
from nmt.text.opening import read_lines
from nmt.text.prepared import PreparedCorpus

PAIRS_COUNTED = 200_000
"""Pairs of the training text whose words are counted."""

Report = Callable[[str], None]


def run_texts(run: RunRecords, validation_lines: int, report: Report) -> tuple[list[TranslatedText], list[str]]:
    """Return the translated texts of a run, and why one is missing.

    So many lines of the validation text are translated with the best checkpoint; nothing is translated for 0, and torch
    is not imported. `report` is called with a message before the work.
    """
    texts, problems = [], []
    if run.recipe is None:
        return [], ["The recipe of the run cannot be read, so its texts are not known."]
    try:
        if (test := _test_text(run, run.recipe)) is not None:
            texts.append(test)
    except (NMTError, OSError) as error:
        problems.append(f"No translations of the test text: {error}")
    try:
        if validation_lines and (validation := _validation_text(run, run.recipe, validation_lines, report)) is not None:
            texts.append(validation)
    except (NMTError, OSError) as error:
        problems.append(f"No translations of the validation text: {error}")
    return texts, problems


def common_texts(
    first: Sequence[TranslatedText], second: Sequence[TranslatedText], names: tuple[str, str]
) -> tuple[list[TranslatedText], list[str]]:
    """Return the texts that both runs translated, each with two systems of these names, and why one is missing.

    Lines of which only one run has the same source and reference are left out.
    """
    texts, problems = [], []
    for text in first:
        other = next((one for one in second if one.id == text.id), None)
        if other is None:
            problems.append(f"{text.title}: only one of the runs has translations of it.")
            continue
        assert text.source is not None
        assert other.source is not None
        (lines,), (other_lines,) = text.systems.values(), other.systems.values()
        places = {pair: index for index, pair in enumerate(zip(other.source, other.reference, strict=True))}
        pairs = [
            (index, places[pair])
            for index, pair in enumerate(zip(text.source, text.reference, strict=True))
            if pair in places
        ]
        if not pairs:
            problems.append(f"{text.title}: the runs have no sentence pair in common.")
            continue
        note = "" if len(pairs) == len(lines) else f"of {len(lines):,}: those that both runs have"
        own = [lines[index] for index, _ in pairs], [other_lines[index] for _, index in pairs]
        systems = dict(zip(names, own, strict=True))
        reference, source = ([side[index] for index, _ in pairs] for side in (text.reference, text.source))
        texts.append(
            TranslatedText(text.id, text.title, text.languages, text.language, reference, systems, source, note)
        )
    return texts, problems


def training_frequencies(recipe: Recipe | None) -> tuple[Counter[str], Counter[str]] | None:
    """Return how often words occur in source and target of the first pairs of the training text; None if unreadable."""
    if recipe is None:
        return None
    try:
        read = [islice(read_pairs(corpus, recipe.languages), PAIRS_COUNTED) for corpus in recipe.data.train]
        pairs = [pair for corpus in read for pair in corpus]
    except (NMTError, OSError):
        return None
    return count_words(pair.source for pair in pairs), count_words(pair.target for pair in pairs)


def _test_text(run: RunRecords, recipe: Recipe) -> TranslatedText | None:
    """Return the test text with the translations in `test.txt`. Raises DataError if they do not belong together."""
    if recipe.data.test is None:
        return None
    file = run.path / "test.txt"
    if not file.exists():
        raise DataError(f"{file} does not exist; nmt train writes it when training ends.")
    pairs, translations = list(read_pairs(recipe.data.test, recipe.languages)), list(read_lines(file))
    if len(pairs) != len(translations):
        raise DataError(
            f"{file} has {len(translations):,} lines, but the test text has {len(pairs):,}; it has changed since."
        )
    return _text("Test text", run, recipe, pairs, translations, "translated at the end of training").shortened()


def _validation_text(run: RunRecords, recipe: Recipe, most: int, report: Report) -> TranslatedText | None:
    """Translate the first lines of the validation text with the best checkpoint."""
    directory = run.path / "prepared"
    corpus = PreparedCorpus.open(directory if directory.exists() else recipe.prepared_directory)
    if corpus.valid is None:
        return None
    pairs = [
        SentencePair(source, target)
        for source, target in islice(zip(corpus.valid_sources, corpus.valid_references, strict=True), most)
    ]
    from nmt.model.checkpoint import load_model
    from nmt.system.device import choose_device
    from nmt.training.validation import evaluate

    runtime = RuntimeSettings()
    best = run.path / ("best" if (run.path / "best").exists() else "last")
    loaded = load_model(best, choose_device(runtime))
    report(f"translating {len(pairs):,} validation sentences with {best} …")
    tag = None if recipe.data.valid is None else recipe.data.valid.tag
    result = evaluate(loaded, runtime, [pair.source for pair in pairs], [pair.target for pair in pairs], tag)
    part = "" if len(pairs) == len(corpus.valid_sources) else f"the first of {len(corpus.valid_sources):,}, "
    note = f"{part}translated for this page by the best checkpoint"
    return _text("Validation text", run, recipe, pairs, result.translations, note)


def _text(
    title: str, run: RunRecords, recipe: Recipe, pairs: Sequence[SentencePair], translations: list[str], note: str
) -> TranslatedText:
    codes = recipe.languages.source, recipe.languages.target
    source, reference = [pair.source for pair in pairs], [pair.target for pair in pairs]
    systems = {run.name: translations}
    return TranslatedText(
        title.split()[0].lower(), title, codes, target_language(codes[1]), reference, systems, source, note
    )
