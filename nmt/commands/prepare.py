"""`nmt prepare`: make the prepared corpus of a recipe, unless it is current."""

import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt.config import Recipe
from nmt.system.console import Console
from nmt.system.files import check_output, disk_errors, lock_folder, output_file, settle
from nmt.text.auditing.audit import Audit, count_rows
from nmt.text.filters import RULES, Rejected
from nmt.text.manifest import PREPARED, Manifest, UnusableCorpusError
from nmt.text.prepared import PreparedCorpus
from nmt.text.preparing import provenance
from nmt.text.preparing.preparation import audit_text, write_corpus
from nmt.text.preparing.tokenizer_training import coverage_rows, initial_tokenizers, misfits
from nmt.text.proposing.direction import check_languages
from nmt.text.readers import shortened

_STAGING = ".partial"
"""The folder inside that of the prepared corpus in which a new one is written."""
_WIDE_COLUMNS, _COLUMNS = 2, 4
"""Corpora in a table of 80 characters: with the meanings of the rules, and with their names only."""


def prepare(
    recipe: Recipe, console: Console, force: bool = False, verify: bool = True, rejected: Path | None = None
) -> PreparedCorpus:
    """Make the prepared corpus of a recipe unless it is current, and return it opened.

    A current one is read as a whole and compared with its digests; without `verify` only its small files are. If
    another process is preparing the same directory, waits for its result. The pairs that the rules remove are written
    to the file `rejected`, for which a current corpus is prepared again, as for `force`. Raises DataError naming file
    and line for text that cannot be read, ConfigError for a tokenizer that cannot be made, or a folder with other files
    only.
    """
    directory, initial = recipe.prepared_directory, recipe.train.init_from
    force = force or rejected is not None
    if initial is not None and initial.is_dir():  # it may be gone when a run is resumed
        initial_tokenizers(recipe, initial)  # check the recipe against it, also if the corpus is current
    with console.status("checking the texts and the prepared corpus"):
        corpus, _ = _current_corpus(recipe, verify, force)
        if corpus is None:
            _check_files(recipe, rejected)
    if corpus is None:
        PREPARED.check(directory)
        with lock_folder(directory, lambda holder: console.info(f"{directory}: waiting for {holder}"), console.warn):
            corpus, reason = _current_corpus(recipe, verify, force)  # another process may have prepared it meanwhile
            if corpus is None:
                console.info(f"preparing {directory} ({reason})")
                return _prepare(recipe, console, rejected)
    console.info(f"{directory}: the prepared corpus is current")
    return corpus


def _current_corpus(recipe: Recipe, verify: bool, force: bool) -> tuple[PreparedCorpus | None, str]:
    """Return the prepared corpus of a recipe, or the reason to prepare it."""
    reason = "--force" if force else provenance.why_stale(recipe)
    if reason is None:
        try:
            return PreparedCorpus.open(recipe.prepared_directory, recipe, verify), ""
        except UnusableCorpusError as error:
            reason = error.reason
    return None, reason


def dry_run(recipe: Recipe, console: Console, rejected: Path | None = None) -> Audit:
    """Apply the rules on text and on repetitions, show what they remove, and write nothing else.

    The rules on tokens need a tokenizer: they are not applied, and what they would remove is estimated. Raises as
    `prepare` does for the text.
    """
    _check_files(recipe, rejected)
    with TemporaryDirectory() as folder:
        audit, removed = audit_text(recipe, Path(folder), console)
        _show_examples(audit, console)
        show_audit(audit, console)
        if rejected is not None:
            _write_rejected(rejected, removed, console)
    return audit


def _check_files(recipe: Recipe, rejected: Path | None = None) -> None:
    """Raise what is known before the hours of a preparation.

    This is ConfigError if `rejected` cannot be written, DataError for a text that cannot be read, or that is not in its
    languages.
    """
    files = provenance.input_files(recipe)
    if rejected is not None:
        check_output(rejected, list(files.values()))
    provenance.check_readable(files)
    check_languages(recipe)


def _write_rejected(file: Path, rejected: Iterable[Rejected], console: Console) -> None:
    """Write removed pairs as tab-separated lines of rule, file, line, source, target.

    Raises ConfigError if the file must not be replaced, DataError for an error of the file system.
    """
    count = 0
    with output_file(file) as output:
        for one in rejected:
            pair, count = one.pair, count + 1
            output.write(f"{one.rule}\t{pair.file}\t{pair.line}\t{pair.source}\t{pair.target}\n".encode())
    console.info(f"{file}: {count:,} pairs")


def _prepare(recipe: Recipe, console: Console, rejected: Path | None) -> PreparedCorpus:
    started = time.perf_counter()
    directory = recipe.prepared_directory
    staging = directory / _STAGING
    new, work = staging / "corpus", staging / "work"
    with disk_errors(directory):
        if not PREPARED.read(directory):
            PREPARED.write(directory)  # without content: the folder belongs to nmt, and holds no corpus yet
        shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed
        for folder in (staging, new, work):
            folder.mkdir()
        try:
            removed = write_corpus(recipe, work, new, console)
            if rejected is not None:
                _write_rejected(rejected, removed, console)
            _move_corpus(new, directory)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    corpus = PreparedCorpus.open(directory, recipe)
    show_audit(Audit.read(directory), console)
    _report(corpus.manifest, console)
    if rows := coverage_rows(recipe, corpus.manifest):
        console.table("characters without a piece", ["", "source", "target"], rows)
    if recipe.train.init_from is not None:
        for warning in misfits(recipe, corpus):
            console.warn(warning)
    console.info(
        f"prepared {directory} in {time.perf_counter() - started:.0f} s; report.md in it has examples of each rule"
    )
    return corpus


def _move_corpus(staging: Path, directory: Path) -> None:
    """Replace the files of the corpus in a directory by those of a staging folder, the manifest last."""
    new = sorted(path.relative_to(staging) for path in staging.rglob("*") if path.is_file())
    settle(staging / name for name in new)
    before = PREPARED.read(directory).get("files", {})
    PREPARED.write(directory, {"files": before})  # no corpus until all files are there
    for name in before:
        (directory / name).unlink(missing_ok=True)
    for name in sorted(new, key=lambda name: name.name == PREPARED.name):
        (directory / name).parent.mkdir(exist_ok=True)
        (staging / name).replace(directory / name)


def _report(manifest: Manifest, console: Console) -> None:
    """Show how well the tokenizer fits the text."""
    splits = [split for split in (manifest.train, manifest.valid) if split is not None]
    rows = []
    for side in ("source", "target"):
        counts = [(getattr(split, side), split.kept) for split in splits]
        rows.append([f"{side} tokens", *(f"{count.tokens:,}" for count, _ in counts)])
        rows.append(["  a sentence", *(f"{count.tokens / pairs:.1f}" for count, pairs in counts)])
        rows.append(["  characters without a piece", *(f"{count.missing_share:.3%}" for count, _ in counts)])
    console.table("", ["", "train", "valid"][: len(splits) + 1], rows)


def _show_examples(audit: Audit, console: Console) -> None:
    """Show the examples of each rule, which `report.md` of a prepared corpus has."""
    for corpus in audit.corpora:
        for rule, examples in corpus.examples.items():
            lines = [f"{corpus.name}: {RULES[rule]} (rule {rule})"]
            for one in examples:
                found = f" ({shortened(one.found)})" if one.found else ""
                lines.append(f"{one.place}: {shortened(one.source)} | {shortened(one.target)}{found}")
            console.info("\n    ".join(lines))


def show_audit(audit: Audit, console: Console) -> None:
    """Show how many pairs each rule removed from each corpus, and what is unusual about the corpora."""
    rows, headers = count_rows(audit.corpora), [re.sub("(:|\\+) ", r"\1\n", corpus.name) for corpus in audit.corpora]
    if len(headers) > _WIDE_COLUMNS:  # labels with the meaning of each rule would leave no room for the columns
        console.info("\n".join(corpus.name for corpus in audit.corpora))
        rows = [[row[0].partition(":")[0], *row[1:]] for row in rows]
        headers = [corpus.name.partition(":")[0].removeprefix("data.") for corpus in audit.corpora]
    for start in range(0, len(headers), _COLUMNS):
        shown = slice(start, start + _COLUMNS)
        console.table("", ["", *headers[shown]], [[row[0], *row[1:][shown]] for row in rows])
    for finding in audit.findings:
        show = console.info if finding.severity == "note" else console.warn
        show("\n    ".join([f"{finding.corpus}: {finding.text}", *finding.examples]))
    for rule, reason in audit.not_applied.items():
        console.info(f"rule {rule} was not applied: {reason}")
