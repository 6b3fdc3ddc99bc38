"""`nmt init`: from a parallel text to a recipe with settings that fit it, and a division into three texts."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from pydantic import ValidationError

from nmt.commands.requests import InitRequest
from nmt.config import CorpusFile, LanguagePair
from nmt.errors import ConfigError, DataError
from nmt.system.console import Console, counted, printable
from nmt.system.files import check_output, new_directory, write_output
from nmt.text.corpus import SentencePair, format_named, read_pairs, text_files
from nmt.text.proposing.direction import (
    Direction,
    checked_direction,
    known_direction,
    unknown_languages,
    with_text_columns,
)
from nmt.text.proposing.profile import TextProfile
from nmt.text.proposing.proposal import Proposal, Setting, propose, recipe_text
from nmt.text.proposing.split import PARTS, divide
from nmt.text.readers.opening import STANDARD_INPUT, input_name

if TYPE_CHECKING:
    from nmt.training.cost import Cost

_SEED = 1
_LEAST_PAIRS = 100
_PAIRS_SHOWN = 10_000  # pairs between two updates of the progress bar
_SIDES = ("source", "target")
_LITTLE_TEXT = 300_000  # target tokens
_OF_LITTLE_TEXT = (
    "This is little text. Measured: BLEU 10 with 2,000 short pairs of Tatoeba en-it, 31 with 20,000 of en-zh, 51 "
    "with 306,000 of en-it, 0.3 with 900 long sentences of FLORES. Add other texts of these languages, or start from a "
    "trained model: train.init_from."
)
"""From benchmarks/RESULTS.md."""


def init(request: InitRequest, console: Console) -> None:
    """Write the recipe, and beside it the folder of its texts.

    Raises ConfigError for an existing recipe and for languages that the text is not in, DataError for text that cannot
    be read or is too small; then no file is written.
    """
    corpora = _corpora(request.text, "the text")
    options = {"valid": request.valid, "test": request.test}
    given = {name: _corpus_of_recipe(paths, f"--{name}") for name, paths in options.items() if paths}
    inputs = [path for each in (*corpora, *given.values()) for path in text_files(each).values()]
    named_inputs = [path for path in inputs if path != STANDARD_INPUT]
    _check_is_new(request.output, named_inputs)
    known = known_direction(request.languages, corpora[0])
    languages = None if known is None else LanguagePair(known.source, known.target)
    corpora = [with_text_columns(each, languages) for each in corpora]
    given = {name: with_text_columns(each, languages) for name, each in given.items()}
    profile = TextProfile(_SEED)
    with new_directory(request.folder) as staging:
        pairs = _counted(corpora, languages, profile, console)
        others = (pair for each in given.values() for pair in read_pairs(each, languages))
        counts = _divide(pairs, [part for part in PARTS[1:] if part not in given], others, staging)
        _check_size(request, profile, counts)
        direction, warning = checked_direction(known, list(corpora[0].files.values()), profile)
        _name_by_language(staging, direction)
    for shown in filter(None, (warning, unknown_languages(direction))):
        console.warn(shown)
    with console.status("measuring the speed of this machine"):
        from nmt.training.cost import cost  # imports torch, for which no error above should wait

        expected = cost(lambda device: propose(profile.tokens(), profile.vocabulary(), device))
    comments = [*_about_text(request, corpora[0], profile, counts), _about_cost(expected)]
    if profile.tokens()[1] < _LITTLE_TEXT:
        comments.append(_OF_LITTLE_TEXT)
    settings = _settings(request, given, (direction, warning), profile, expected.proposal)
    _check_is_new(request.output, named_inputs)  # again, since it took a while
    write_output(request.output, recipe_text(comments, settings))
    for line in (f"{direction.source} → {direction.target}, by {direction.origin}", *comments):
        console.info(line)
    console.info(f"wrote {request.output} and {request.folder}/; next: nmt train --config {quote(str(request.output))}")


def _names(request: InitRequest) -> str:
    return " and ".join(printable(input_name(path)) for path in request.text)


def _corpora(files: Sequence[Path], name: str) -> list[CorpusFile]:
    """Return a text as two files with corresponding lines, or as files with both languages.

    Raises ConfigError for another number of files, or one file given twice.
    """
    if folder := next((file for file in files if file.is_dir()), None):
        raise ConfigError(
            f"{name}: expected a file, found the folder {folder}; name the files in it, such as "
            f"{folder / 'text.en'} {folder / 'text.it'}"
        )
    with_both, repeated = all(format_named(file) != "tsv" for file in files), len({*files}) < len(files)
    if repeated or not (with_both or 1 <= len(files) <= 2):
        found = "one file twice" if repeated else f"{len(files)} files"
        raise ConfigError(
            f"{name}: expected one file with both languages, or a file of sources and a file of their translations; "
            f"found {found}"
        )
    try:
        if with_both or len(files) == 1:
            return [CorpusFile(file=file) for file in files]
        return [CorpusFile(source=files[0], target=files[1])]
    except ValidationError as error:
        raise ConfigError(f"{name}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def _corpus_of_recipe(files: Sequence[Path], name: str) -> CorpusFile:
    """Return a text that the recipe names: one corpus, which can be read again."""
    corpora = _corpora(files, name)
    if len(corpora) > 1 or STANDARD_INPUT in files:
        found = "standard input" if STANDARD_INPUT in files else f"{len(corpora)} texts"
        raise ConfigError(f"{name}: expected one text that the recipe can name, found {found}; save it to a file")
    return corpora[0]


def _check_is_new(recipe: Path, inputs: list[Path]) -> None:
    """Raise ConfigError if there is a file of the name of the recipe, or if it cannot be one."""
    if recipe.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{recipe}: the name of a recipe ends in .yaml; give another one with -o")
    if not str(recipe).isprintable():
        raise ConfigError(f"{str(recipe)!r}: a name with unprintable characters; give another one with -o")
    if os.path.lexists(recipe):
        raise ConfigError(f"{recipe}: exists already and is not changed; give another name with -o, or remove it")
    check_output(recipe, inputs)


def _divide(
    pairs: Iterator[SentencePair], held_out: Sequence[str], others: Iterator[SentencePair], folder: Path
) -> Counter[str]:
    """Write the parts of the text into a folder as `train.source`, `train.target`, …; return the pairs of each.

    The parts are in the order of `PARTS`.
    """
    counts = Counter(dict.fromkeys(("train", *held_out), 0))
    with ExitStack() as stack:
        files = {
            (part, side): stack.enter_context((folder / f"{part}.{side}").open("w", encoding="utf-8", newline="\n"))
            for part in counts
            for side in _SIDES
        }
        for part, pair in divide(pairs, held_out, others, _SEED):
            counts[part] += 1
            files[part, "source"].write(f"{pair.source}\n")
            files[part, "target"].write(f"{pair.target}\n")
    return counts


def _counted(
    corpora: Sequence[CorpusFile], languages: LanguagePair | None, profile: TextProfile, console: Console
) -> Iterator[SentencePair]:
    """Read the text, which may be a pipe, once: yield its pairs, and measure them."""
    with console.progress("reading", None, "pairs") as advance:
        for number, pair in enumerate((pair for each in corpora for pair in read_pairs(each, languages)), start=1):
            profile.add(pair)
            if number % _PAIRS_SHOWN == 0:
                advance(_PAIRS_SHOWN)
            yield pair


def _check_size(request: InitRequest, profile: TextProfile, counts: Counter[str]) -> None:
    """Raise DataError if there is too little to train on, or nothing to validate on."""
    names, pairs = _names(request), profile.pairs - profile.empty
    if pairs < _LEAST_PAIRS:
        empty = f" and {profile.empty:,} with an empty side" if profile.empty else ""
        raise DataError(
            f"{names}: found {counted(pairs, 'sentence pair')}{empty}; at least {_LEAST_PAIRS} are needed, and "
            "thousands for a useful translator"
        )
    if not counts.total():
        raise DataError(
            f"{names}: nothing is left to train on: all {profile.pairs:,} pairs have source sentences of the texts "
            "of --valid or --test; name texts that are not part of the training text, or leave these options out"
        )
    if not all(counts.values()):
        raise DataError(
            f"{names}: {pairs:,} sentence pairs, but too few different sources of at most 1,000 characters to hold out "
            "validation and test text; remove repeated lines, or give these texts with --valid and --test"
        )


def _name_by_language(folder: Path, direction: Direction) -> None:
    """Name the files by their languages."""
    ends = dict(zip(_SIDES, direction.suffixes, strict=True))
    for path in sorted(folder.iterdir()):
        path.rename(path.with_suffix(f".{ends[path.suffix[1:]]}"))


def _settings(
    request: InitRequest,
    given: Mapping[str, CorpusFile],
    checked: tuple[Direction, str | None],
    profile: TextProfile,
    proposal: Proposal,
) -> dict[str, Setting]:
    """Return the settings of the recipe, in its order."""
    direction, warning = checked
    name = request.output.stem if request.prefix else request.output.absolute().parent.name or "translator"
    vocabulary = (
        f"about {proposal.vocabulary:,} pieces for this text: the characters and bytes, and 1.8 times the square root "
        f"of {sum(profile.characters):,} characters; little text needs few pieces (Sennrich & Zhang 2019)"
    )
    return {
        "name": Setting(_quoted(name)),
        "languages": Setting(f"{{source: {direction.source}, target: {direction.target}}}"),
        **{f"data.{part}": _text_setting(request, part, given.get(part), direction) for part in PARTS},
        **({} if warning is None else {"data.accept_any_language": Setting("true")}),
        "tokenizer": Setting("{vocab_size: auto}", vocabulary),
        **proposal.settings,
        "decode": Setting("{beam: 4}"),
        "run": Setting(_quoted(f"{request.prefix}run")),
    }


def _text_setting(request: InitRequest, part: str, given: CorpusFile | None, direction: Direction) -> Setting:
    """Return the setting of a text: the given one, or a part of the divided text. Paths are relative to the recipe."""
    if given is None:
        ends = zip(_SIDES, direction.suffixes, strict=True)
        text: dict[str, object] = {side: f"{request.folder.name}/{part}.{end}" for side, end in ends}
    else:
        text = {key: os.path.relpath(path, request.output.parent) for key, path in given.files.items()}
        if given.columns != (1, 2):
            text["columns"] = given.columns
    mapping = "{" + ", ".join(f"{key}: {_quoted(value)}" for key, value in text.items()) + "}"
    return Setting(f"[{mapping}]" if part == "train" else mapping)


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _about_text(request: InitRequest, corpus: CorpusFile, profile: TextProfile, counts: Counter[str]) -> Iterator[str]:
    """Yield what was read and how it is divided."""
    names = _names(request)
    if corpus.columns != (1, 2):
        names += f", columns {corpus.columns[0]} and {corpus.columns[1]}"
    empty = f", {profile.empty:,} of them with an empty side, which are not trained on" if profile.empty else ""
    source, target = profile.tokens()
    yield f"{names}: {profile.pairs:,} sentence pairs{empty}, about {source:,} source and {target:,} target tokens."
    parts = ", ".join(f"{count:,} {part}" for part, count in counts.items())
    left_out = profile.pairs - counts.total()
    given = f"; {left_out:,} pairs of the given texts are left out" if left_out else ""
    yield (
        f"{request.folder.name}/ holds these pairs: {parts}{given}. They are divided by source sentence (seed "
        f"{_SEED}): all pairs of a source sentence are in one part. The text itself is not changed."
    )


def _about_cost(expected: "Cost") -> str:
    """Return the expected time and memory as a sentence."""
    low, high = expected.minutes
    time = f"{low:,.0f} to {high:,.0f} minutes" if high < 120 else f"{low / 60:,.1f} to {high / 60:,.1f} hours"
    kind = "RAM" if expected.device == "cpu" else "device memory"
    least, most = expected.gibibytes
    return (
        f"All {expected.proposal.steps:,} steps take {time} on this machine ({expected.device}), computed "
        f"from its rate of matrix products, and {least:.1f} to {most:.1f} GiB of {kind}; "
        "nmt train --dry-run measures both."
    )
