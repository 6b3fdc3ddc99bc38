"""`nmt prepare`: make the prepared corpus of a recipe, unless it is current."""

import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from nmt.config import Recipe
from nmt.errors import DataError
from nmt.system.console import Console
from nmt.system.files import check_output, disk_errors, lock_folder, output_file, sync_files
from nmt.text.direction import check_languages
from nmt.text.manifest import PREPARED, Manifest, UnusableCorpusError, input_files, why_stale
from nmt.text.prepared import PreparedCorpus
from nmt.text.preparing.audit import Audit
from nmt.text.preparing.preparation import Judge, Mapped, Preparation, filtered_texts, in_processes, write_corpus
from nmt.text.preparing.rules import RULES
from nmt.text.readers.opening import open_file
from nmt.text.tokenizer import initial_files, initial_tokenizers

_STAGING = ".partial"  # the folder inside that of the prepared corpus in which a new one is written
_MOST_MISSING = 0.01  # the share of characters without a piece from which a tokenizer does not fit a text


def prepare(
    recipe: Recipe,
    console: Console,
    force: bool = False,
    rejected: Path | None = None,
    mapped: Mapped | None = None,
    check: Callable[[Manifest], None] = lambda manifest: None,
) -> PreparedCorpus:
    """Make the prepared corpus of a recipe unless it is current, and return it opened.

    If another process is preparing the same directory, waits for its result. The pairs that the rules remove are
    written to the file `rejected`, for which a current corpus is prepared again, as for `force`. `mapped` shares
    the work, by default among processes on this machine. `check` may refuse the corpus, a new one before it
    replaces another. Raises DataError naming file and line for text that cannot be read, ConfigError for a tokenizer
    that cannot be made, or a folder with other files only.
    """
    directory, initial = recipe.prepared_directory, recipe.train.init_from
    forced = "--force" if force else "" if rejected is None else "--rejected"
    if initial is not None and initial_files(initial):  # it may be gone when a run is resumed
        initial_tokenizers(recipe, initial)  # check the recipe against it, also if the corpus is current
    corpus, _ = _current_corpus(recipe, console, forced)
    if corpus is None:
        with console.status("checking the texts"):
            _check_files(recipe, rejected)
        PREPARED.check(directory)
        lock = lock_folder(directory, lambda holder: console.info(f"{directory}: waiting for {holder}"), console.warn)
        with disk_errors(directory), lock:
            corpus, reason = _current_corpus(recipe, console, forced)  # another process may have prepared it meanwhile
            if corpus is None:
                console.info(f"preparing {directory} ({reason})")
                return _prepare(recipe, console, rejected, mapped, check)
    check(corpus.manifest)
    missing = [str(path) for path in input_files(recipe).values() if not path.exists()]
    note = f"; missing files count as unchanged: {', '.join(missing)}" if missing else ""
    console.info(f"{directory}: the prepared corpus is current{note}")
    return corpus


def _current_corpus(recipe: Recipe, console: Console, forced: str) -> tuple[PreparedCorpus | None, str]:
    """Return the prepared corpus of a recipe, or the reason to prepare it."""
    reason = why_stale(recipe)  # also with --force: it raises an error for a manifest of another program
    if forced:
        reason = reason or forced
    elif reason is None:
        try:
            with console.status("comparing the prepared corpus with its digests"):
                return PreparedCorpus.open(recipe.prepared_directory, recipe), ""
        except UnusableCorpusError as error:
            reason = error.reason
    return None, reason


def dry_run(recipe: Recipe, console: Console, rejected: Path | None = None) -> Audit:
    """Apply the rules that need no tokenizer, show what they remove, and write nothing else.

    Raises as `prepare` does for the text.
    """
    _check_files(recipe, rejected)
    with TemporaryDirectory() as folder, _output(rejected) as stream, disk_errors(Path(folder)):
        job = Preparation(recipe, Path(folder), console, in_processes(recipe), stream, _judge(recipe))
        _, audit = filtered_texts(job)
        audit.not_applied["too_long"] = "it counts tokens, and a dry run makes no tokenizer"
    show_audit(audit, console, with_examples=True)
    return audit


def _output(file: Path | None) -> AbstractContextManager[BinaryIO | None]:
    """Return a stream for the content of a file that may be None."""
    return nullcontext() if file is None else output_file(file)


def _check_files(recipe: Recipe, rejected: Path | None = None) -> None:
    """Raise the errors that can be found before a preparation, which may take hours.

    ConfigError if `rejected` cannot be written, DataError for a text that cannot be read, or that is not in its
    languages.
    """
    files = input_files(recipe)
    if rejected is not None:
        check_output(rejected, files.values())
    for key, path in files.items():
        try:
            open_file(path).close()
        except DataError as error:
            raise DataError(f"{key}: {error}") from None
    check_languages(recipe)


def _prepare(
    recipe: Recipe, console: Console, rejected: Path | None, mapped: Mapped | None, check: Callable[[Manifest], None]
) -> PreparedCorpus:
    started = time.perf_counter()
    directory = recipe.prepared_directory
    staging = directory / _STAGING
    new, work = staging / "corpus", staging / "work"
    shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed
    for folder in (staging, new, work):
        folder.mkdir()
    try:
        with _output(rejected) as stream, disk_errors(directory):
            job = Preparation(recipe, work, console, mapped or in_processes(recipe), stream, _judge(recipe))
            manifest = write_corpus(job, new)
        check(manifest)
        _replace_corpus(new, manifest, directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    corpus = PreparedCorpus.open(directory, recipe)
    show_audit(Audit.read(directory), console)
    _report(corpus.manifest, recipe.train.init_from is not None, console)
    console.info(f"prepared {directory} in {time.perf_counter() - started:.0f} s")
    return corpus


def _judge(recipe: Recipe) -> Judge | None:
    """Return a function that finds improbable pairs with a model, using torch; None if the recipe names no model."""
    if recipe.data.filters.scored_by is None:
        return None
    from nmt.translation.pair_scores import judge_by

    return judge_by(recipe.data.filters.scored_by, recipe)


def _replace_corpus(new: Path, manifest: Manifest, directory: Path) -> None:
    """Replace the files of the corpus in a directory by those of another folder, the manifest last."""
    files = sorted(path.relative_to(new) for path in new.rglob("*") if path.is_file())
    sync_files(new / file for file in files)
    PREPARED.write(directory)  # without content: no corpus until all files are there
    for link in filter(Path.is_symlink, (directory / "train", directory / "valid")):
        link.unlink()  # its target does not belong to this corpus
    for pattern in ("tokenizer*.model", "valid/*.npy", "valid.json"):  # which the new one may not have
        for old in directory.glob(pattern):
            old.unlink()
    for file in files:
        (directory / file).parent.mkdir(exist_ok=True)
        (new / file).replace(directory / file)
    manifest.write(directory)


def _report(manifest: Manifest, is_initial: bool, console: Console) -> None:
    """Show how well the tokenizer, which may be that of an initial model, fits the text."""
    for name, split in (("train", manifest.train), ("valid", manifest.valid)):
        if split is None:
            continue
        for side, counts in (("source", split.source), ("target", split.target)):
            tokens = f"{name} {side}: {counts.tokens:,} tokens, {counts.tokens / split.kept:.1f} a sentence"
            console.info(f"{tokens}; {counts.missing_share:.3%} of the characters have no piece")
            if is_initial and name == "train" and counts.missing_share > _MOST_MISSING:
                console.warn(
                    f"train.init_from: its tokenizer has no piece for {counts.missing_share:.1%} of the characters of "
                    f"the {side} text, and writes them in bytes, which makes sentences long. Train a model without "
                    "init_from on this text, or start from one trained on similar text"
                )
    console.info(f"vocabulary: {' and '.join(f'{size:,}' for size in dict.fromkeys(manifest.vocabulary))} pieces")


def show_audit(audit: Audit, console: Console, with_examples: bool = False) -> None:
    """Show how many pairs each rule removed from each corpus, the first ones of them, and what is unusual about it."""
    for corpus in audit.corpora:
        lines = [corpus.name, f"{corpus.read:>13,}  pairs read"]
        for rule, meaning in RULES.items():
            if count := corpus.removed[rule]:
                lines.append(f"{count:>13,}  {count / corpus.read:>6.2%}  {rule}: {meaning}")
            for pair in corpus.examples.get(rule, ()) if with_examples else ():
                detail = f": {console.shortened(pair.reason, min(len(pair.place), 60) + 6)}" if pair.reason else ""
                sides = (f"      {console.shortened(text, 6)}" for text in (pair.source, pair.target))
                lines += [f"    {pair.place}{detail}", *sides]
        console.info("\n".join([*lines, f"{corpus.kept:>13,}  pairs kept"]))
    for finding in audit.findings:
        console.warn(str(finding))
    for rule, reason in audit.not_applied.items():
        console.info(f"rule {rule} was not applied: {reason}")
