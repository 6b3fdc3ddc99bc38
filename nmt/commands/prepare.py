"""`nmt prepare`: make the prepared corpus of a recipe, unless it is current."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from nmt.config import Recipe
from nmt.errors import DataError
from nmt.system.console import Console
from nmt.system.files import lock_file, real_path, staged_directory
from nmt.system.ownership import PREPARED, check_directory
from nmt.text.coverage import coverage_rows, misfits
from nmt.text.filters import RULES
from nmt.text.overlap import Overlap
from nmt.text.preparation import Shard, count_overlaps, write_corpus
from nmt.text.preparation import prepare_shard as write_shard
from nmt.text.prepared import Manifest, PreparedCorpus
from nmt.text.provenance import check_readable, files_of_test_text, input_files, record, why_changed, why_stale
from nmt.text.tokenizer import Tokenizers
from nmt.text.tokenizer_training import initial_tokenizers
from nmt.text.work_directory import open_work_directory, work_directory


def prepare(recipe: Recipe, console: Console, force: bool = False, verify: bool = True) -> PreparedCorpus:
    """Make the prepared corpus of a recipe unless it is current, and return it opened.

    A current one is read as a whole and compared with its digests; without `verify` only its small files are. If
    another process is preparing the same directory, waits for its result. Raises DataError naming file and line for
    text that cannot be read, ConfigError for a tokenizer that cannot be made or a directory that is not nmt's.
    """
    directory = recipe.prepared_directory
    initial = recipe.train.init_from
    if initial is not None and initial.is_dir():  # it may be gone when a run is resumed
        initial_tokenizers(recipe, initial)  # check the recipe against it, also if the corpus is current
    found = "--force" if force else _current_corpus(recipe, verify)
    if isinstance(found, str):
        check_readable({**input_files(recipe), **files_of_test_text(recipe)})
        with _sole_writer(directory, console):
            if not force:  # another process may have prepared it meanwhile
                found = _current_corpus(recipe, verify)
            if isinstance(found, str):
                console.info(f"preparing {directory} ({found})")
                return _prepare(recipe, console)
    console.info(f"{directory}: the prepared corpus is current")
    _warn_of_overlaps(_overlaps(recipe, found.manifest, console), console)
    return found


def _current_corpus(recipe: Recipe, verify: bool) -> PreparedCorpus | str:
    """Return the prepared corpus of a recipe, or the reason to prepare it."""
    reason = why_stale(recipe)
    if reason is not None:
        return reason
    try:
        return PreparedCorpus.open(recipe.prepared_directory, recipe, verify)
    except DataError as error:
        return str(error)


_check_replaceable = partial(check_directory, kind=PREPARED)


@contextmanager
def _sole_writer(directory: Path, console: Console) -> Iterator[None]:
    """Hold the lock on a prepared corpus; wait, with a message, while another process holds it."""
    _check_replaceable(directory)
    place = real_path(directory)
    made = [folder for folder in place.parents if not folder.exists()]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{directory}: cannot write it: {error.strerror}; name another folder as `prepared`") from None
    lock = place.with_name(f".{place.name}.lock")
    wait = lambda holder: console.info(f"{directory}: {holder} is preparing it; waiting")  # noqa: E731
    try:
        with lock_file(lock, wait, console.warn):
            yield
    finally:
        with suppress(OSError):
            for folder in made:
                folder.rmdir()  # if it is empty: nothing was written


def _prepare(recipe: Recipe, console: Console) -> PreparedCorpus:
    started = time.perf_counter()
    directory = recipe.prepared_directory
    with work_directory(recipe, console) as work, staged_directory(directory) as staging:
        manifest = write_corpus(recipe, work, staging, console)
        _check_replaceable(directory)  # again, since it took a while
    _report(manifest, console)
    if rows := coverage_rows(recipe, manifest):
        console.table("characters without a piece", ["", "source", "target"], rows)
    _warn_of_overlaps(manifest.overlaps, console)
    if recipe.train.init_from is not None:
        for warning in misfits(recipe, manifest, Tokenizers.load(directory)):
            console.warn(warning)
    console.info(f"prepared {directory} in {time.perf_counter() - started:.0f} s")
    return PreparedCorpus.open(directory, recipe)


def prepare_shard(recipe: Recipe, console: Console, shard: Shard) -> None:
    """Do a part of the work of `prepare`, on one of several machines that share the folder of the prepared corpus.

    Raises DataError and ConfigError as `prepare` does.
    """
    directory = recipe.prepared_directory
    if isinstance(_current_corpus(recipe, verify=False), PreparedCorpus):
        console.info(f"{directory}: the prepared corpus is current")
        return
    check_readable({**input_files(recipe), **files_of_test_text(recipe)})
    alone = partial(_sole_writer, directory, console)
    with alone():
        work = open_work_directory(recipe)
    try:
        encoded = write_shard(recipe, work, shard, console, alone)
    except OSError as error:
        advice = "the same command continues when that is corrected"
        raise DataError(f"{work}: cannot write it: {error.strerror or error}; {advice}") from error
    if encoded:
        console.info(f"shard {shard} is encoded; when all are, nmt prepare without --shard writes the prepared corpus")
    else:
        console.info(f"shard {shard} is filtered; when all are, the same command encodes it")


def _overlaps(recipe: Recipe, manifest: Manifest, console: Console) -> tuple[Overlap, ...]:
    """Return the recorded overlaps, or count them again if the recipe names another test text than at that time."""
    files = files_of_test_text(recipe)
    if not files:
        return tuple(overlap for overlap in manifest.overlaps if overlap.text == "validation")
    if files.keys() == manifest.test.keys() and why_changed(manifest.test, files, recipe.prepared_directory) is None:
        return manifest.overlaps
    record(files)  # raises an error if one is missing
    texts_exist = all(path.exists() for path in input_files(recipe).values())
    return count_overlaps(recipe, console) if texts_exist else ()


def _warn_of_overlaps(overlaps: tuple[Overlap, ...], console: Console) -> None:
    for overlap in overlaps:
        if overlap.sources:
            console.warn(str(overlap))


def _report(manifest: Manifest, console: Console) -> None:
    """Show how many pairs each filter left out, and how well the tokenizer fits the text."""
    splits = [split for split in (manifest.train, manifest.valid) if split is not None]
    rows = [["pairs read", *(f"{split.read:,}" for split in splits)]]
    for rule, meaning in RULES.items():
        if any(split.refused[rule] for split in splits):
            rows.append([f"  {rule}: {meaning}", *(f"{-split.refused[rule]:,}" for split in splits)])
    rows.append(["pairs kept", *(f"{split.kept:,}" for split in splits)])
    for side in ("source", "target"):
        counts = [split.source if side == "source" else split.target for split in splits]
        rows.append([f"{side} tokens", *(f"{count.tokens:,}" for count in counts)])
        mean = (count.tokens / split.kept for count, split in zip(counts, splits, strict=True))
        rows.append(["  a sentence", *(f"{tokens:.1f}" for tokens in mean)])
        rows.append(["  characters without a piece", *(f"{count.missing_share:.3%}" for count in counts)])
    console.table("", ["", "train", "valid"][: len(splits) + 1], rows)
