"""The texts of a run with its translations: the test text as the run wrote it, the validation text translated now."""

from collections.abc import Iterator, Sequence
from itertools import islice

from nmt.config import CorpusFile, Recipe, RuntimeSettings
from nmt.errors import DataError, NMTError
from nmt.report.run_records import RunRecords
from nmt.report.translated_text import TranslatedText
from nmt.system.console import Console, counted
from nmt.text.corpus import SentencePair, read_pairs
from nmt.text.languages import target_language
from nmt.text.prepared import PreparedCorpus
from nmt.text.readers.opening import read_lines


def run_texts(run: RunRecords, validation_lines: int, console: Console) -> tuple[list[TranslatedText], list[str]]:
    """Return the translated texts of a run, and why one is missing.

    So many lines of each validation text are translated with the best checkpoint; nothing is translated for 0, and
    torch is not imported.
    """
    texts, problems = list[TranslatedText](), list[str]()
    if run.recipe is None:
        return [], ["The recipe of the run cannot be read, so its texts are not known."]
    try:
        texts += _test_texts(run, run.recipe)
    except (NMTError, OSError) as error:
        problems.append(f"No translations of the test text: {error}")
    try:
        if validation_lines:
            texts += _validation_texts(run, run.recipe, validation_lines, console)
    except (NMTError, OSError) as error:
        problems.append(f"No translations of the validation text: {error}")
    return texts, problems


def common_texts(
    first: Sequence[TranslatedText], second: Sequence[TranslatedText], names: tuple[str, str]
) -> tuple[list[TranslatedText], list[str]]:
    """Return the texts that both runs translated, each with two systems of these names, and why one is missing.

    Lines of which only one run has the same source and reference are left out.
    """
    common, problems = [], []
    for text in first:
        other = next((one for one in second if one.id == text.id), None)
        if other is None:
            problems.append(f"{text.title}: only one of the runs has translations of it.")
            continue
        (lines,), (other_lines,) = text.systems.values(), other.systems.values()
        pairs, other_pairs = ([*zip(one.source or [], one.reference, strict=True)] for one in (text, other))
        translated = dict(zip(other_pairs, other_lines, strict=True))
        shared = [
            (*pair, line, translated[pair]) for pair, line in zip(pairs, lines, strict=True) if pair in translated
        ]
        if not shared:
            problems.append(f"{text.title}: the runs have no sentence pair in common.")
            continue
        note = "" if len(shared) == len(lines) else f"of {len(lines):,}: those that both runs have"
        source, reference, *outputs = map(list, zip(*shared, strict=True))
        systems = dict(zip(names, outputs, strict=True))
        common.append(
            TranslatedText(text.id, text.title, text.languages, text.language, reference, systems, source, note)
        )
    return common, problems


def _test_texts(run: RunRecords, recipe: Recipe) -> Iterator[TranslatedText]:
    """Yield the test texts with the translations in `test.txt`. Raises DataError if they do not belong together."""
    if not recipe.data.test:
        return
    file = run.path / "test.txt"
    if not file.exists():
        raise DataError(f"{file} does not exist; nmt train writes it when training ends.")
    pairs_of = [list(read_pairs(corpus, recipe.languages_of(corpus))) for corpus in recipe.data.test]
    translations = list(read_lines(file))
    if (lines := sum(map(len, pairs_of))) != len(translations):
        raise DataError(
            f"{file} has {counted(len(translations), 'line')}, but the test text has {lines:,}; it has changed since."
        )
    remaining = iter(translations)
    for corpus, pairs in zip(recipe.data.test, pairs_of, strict=True):
        own = list(islice(remaining, len(pairs)))
        yield _text("Test text", recipe, corpus, pairs, own, "translated at the end of training")


def _validation_texts(run: RunRecords, recipe: Recipe, most: int, console: Console) -> Iterator[TranslatedText]:
    """Translate the first lines of each validation text with the best checkpoint."""
    corpus = PreparedCorpus.open(run.prepared)
    if corpus.valid is None:
        return
    from nmt.model.checkpoint import load_model, resolve_model
    from nmt.system.device import choose_device
    from nmt.training.validation import evaluate, validation_texts

    runtime, best = RuntimeSettings(), resolve_model(run.path)
    loaded = load_model(best, choose_device(runtime))
    whole = validation_texts(recipe, corpus)
    first = [text._replace(sources=text.sources[:most], references=text.references[:most]) for text in whole]
    count = sum(len(text.sources) for text in first)
    console.info(f"translating {counted(count, 'validation sentence')} with {best} …")
    with console.progress_through("translating", count, "sentences") as show:
        result = evaluate(loaded, runtime, first, show)
    for settings, text, part, translations in zip(recipe.data.valid, whole, first, result.translations, strict=True):
        beginning = "" if len(part.sources) == len(text.sources) else f"the first of {len(text.sources):,}, "
        note = f"{beginning}translated for this page by the best checkpoint"
        pairs = [SentencePair(*pair) for pair in zip(part.sources, part.references, strict=True)]
        yield _text("Validation text", recipe, settings, pairs, translations, note)


def _text(
    title: str, recipe: Recipe, corpus: CorpusFile, pairs: Sequence[SentencePair], translations: list[str], note: str
) -> TranslatedText:
    """Return a text of a run with its translations; where there are several target languages, it is named after its."""
    target = recipe.target_of(corpus)
    source, reference = [pair.source for pair in pairs], [pair.target for pair in pairs]
    name = title.split()[0].lower()
    if len(recipe.languages.target) > 1:
        name, title = f"{name}-{target}", f"{title} ({target})"
    systems, codes = {recipe.name: translations}, (recipe.languages.source, target)
    return TranslatedText(name, title, codes, target_language(target), reference, systems, source, note)
