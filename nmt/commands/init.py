"""`nmt init`: from a parallel text to a recipe with settings that fit it, and a validation and a test text."""

import json
import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from nmt.commands.requests import InitRequest
from nmt.config import FURTHER_TOKENS, CorpusFile, Filters, LanguagePair
from nmt.errors import ConfigError, DataError
from nmt.system.console import Console, counted, printable
from nmt.system.files import disk_errors, new_directory, write_output
from nmt.text.corpus import format_of, read_pairs, sample_of
from nmt.text.direction import checked_sides, known_direction, shown_direction, with_text_columns
from nmt.text.preparing.audit import Remark, findings
from nmt.text.proposal import MOST_PAIRS, Setting, TextProfile, candidates, choose, distinct, held_out_size, propose
from nmt.text.readers import SentencePair
from nmt.text.readers.opening import STANDARD_INPUT, read_lines, text_members
from nmt.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from nmt.model.stored import Description

_LEAST_PAIRS = 100
_COMMENT = textwrap.TextWrapper(100, break_long_words=False, break_on_hyphens=False)
_NOT_IN_YAML = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_TUNING_TOKENS = 2048  # target tokens of a batch of fine-tuning
_LITTLE_TEXT = 300_000  # target tokens
# From benchmarks/RESULTS.md.
_OF_LITTLE_TEXT = (
    "This is little text. Measured on Tatoeba en-it: BLEU 11 with 2,000 short pairs, 23 with 5,000, 43 with 25,000, 55 "
    "with 306,000; 31 with 20,000 of en-zh, 0.3 with 900 long sentences of FLORES. Add other texts, or text in the "
    "target language alone (back-translation: docs/training.md), or start from a trained model: train.init_from."
)


def init(request: InitRequest, console: Console) -> None:
    """Write the recipe, and beside it the validation and the test text, unless they are given.

    Raises ConfigError for existing files and for languages that the text is not in, DataError for text that cannot be
    read or is too small; then no file is written.
    """
    _check_are_new(request)
    corpora, profile, warnings = _given_texts(request), TextProfile(), list[str]()
    directions = (known_direction(request.languages, corpus) for corpus in corpora["train"])
    known = next(filter(None, directions), None)
    with console.status("reading the text"):
        languages = None if known is None else known.languages
        direction = shown_direction(known, [with_text_columns(corpus, languages) for corpus in corpora["train"]])
        languages = direction.languages
        model = None if request.initial is None else initial_description(request.initial, languages)
        as_given, are_exchanged = list[CorpusFile](), False
        for texts in corpora.values():
            given = [with_text_columns(corpus, languages) for corpus in texts]
            texts[:] = [checked_sides(corpus, direction, warnings) for corpus in given]
            as_given += [corpus for corpus in given if corpus in texts]
            are_exchanged |= texts != given
        requested = (request.valid_size or 0) + (request.test_size or 0)
        sample = candidates(profile.counting(_pairs(corpora["train"], languages)), requested)
        profile.without_repetitions(sample, distinct(sample))
    with console.status("choosing validation and test text"):
        held_out = _held_out(request, profile, corpora, languages)
        profile.sample = sorted({*profile.sample}.difference(*held_out.values()))
        filters, unusual = Filters(keep=("language",) if warnings else ()), list[Remark]()
        for corpus in chain.from_iterable(corpora.values()):  # what `nmt prepare` would warn of
            unusual += findings(_file_names(corpus), languages, sample_of(corpus, languages), filters)
    if are_exchanged:
        note = "its sides are not exchanged, those of another text are; check this one in the recipe"
        for corpus in as_given:  # may be too short to be judged
            console.warn(f"{_file_names(corpus)}: {note}")
    for remark in dict.fromkeys((*warnings, *map(str, unusual))):
        console.warn(remark)
    is_mixed = any(remark.rule == "language" for remark in unusual)
    settings = _text_settings(request, corpora, languages, model) | _filters(model, bool(warnings), is_mixed)
    first = corpora["train"][0]
    names = _names(request) + (f", columns {list(first.columns)}" if first.columns != (1, 2) else "")
    if request.initial is not None:
        comments, proposed_settings = _fine_tuning(request, request.initial, names, profile)
    else:
        comments, proposed_settings = _comments_and_settings(names, profile, request.minutes, console)
    if held_out:
        copies = " and ".join(f"{request.held_out[part].name} with {len(pairs):,}" for part, pairs in held_out.items())
        comments.insert(1, f"Pairs of it are held out: {copies}.")
    settings |= {**proposed_settings, "decode": Setting("{beam: 4}"), "run": Setting(_quoted(f"{request.prefix}run"))}
    with disk_errors(request.output):
        request.output.parent.mkdir(parents=True, exist_ok=True)
    for part, pairs in held_out.items():
        write_output(request.held_out[part], "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs))
    write_output(request.output, _recipe_text(comments, settings))
    for line in (f"{languages.source} → {languages.target}, by {direction.origin}", *comments):
        console.info(line)
    written = " and ".join(str(path) for path in (request.output, *request.held_out.values()))
    console.info(f"wrote {written}; next: nmt train --config {quote(str(request.output))}")


def _check_are_new(request: InitRequest) -> None:
    """Raise ConfigError if a file to write exists already, or if a name or an option is not valid."""
    if request.output.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"{request.output}: the name of a recipe ends in .yaml; give another one with -o")
    if request.new_pieces and request.initial is None:
        raise ConfigError("--new-pieces: they are added to a trained model; name it with --from MODEL")
    for path in (request.output, *request.text, *(request.valid or ()), *(request.test or ())):
        if str(path).encode(errors="ignore").decode() != str(path):
            raise ConfigError(f"{str(path)!a}: its name is not UTF-8, and so cannot be in a recipe; rename it")
    for path in (request.output, *request.held_out.values()):
        if os.path.lexists(path):
            raise ConfigError(
                f"{path}: exists already and is not changed; give another name of the recipe with -o, or remove it"
            )


def _given_texts(request: InitRequest) -> dict[str, list[CorpusFile]]:
    """Return the texts that are given for training, validation and test. Raises ConfigError."""
    files = {"train": request.text, "valid": request.valid, "test": request.test}
    corpora = {part: _corpora(paths) for part, paths in files.items() if paths}
    for part in ("valid", "test"):
        if len(corpora.get(part, ())) > 1:
            raise ConfigError(f"--{part}: found {len(corpora[part])} texts, expected one; join them in one file")
        if part in corpora and getattr(request, f"{part}_size") is not None:
            raise ConfigError(f"--{part}-size: this text is given with --{part}; leave one of the two out")
    return corpora


def _corpora(files: Sequence[Path]) -> list[CorpusFile]:
    """Return a text as two files with corresponding lines, or as files with both languages."""
    if STANDARD_INPUT in files:
        raise ConfigError("-: expected files that the recipe can name, found standard input; save it to a file")
    if len(files) == 2 and any(format_of(file) == "tsv" for file in files) and not all(map(_has_both, files)):
        return [CorpusFile(source=files[0], target=files[1])]
    return [CorpusFile(file=file) for file in files]


def _has_both(file: Path) -> bool:
    """Whether a file has both languages: an archive, or one whose first line has a tab."""
    return bool(text_members(file)) or format_of(file) != "tsv" or "\t" in next(read_lines(file), "")


def _pairs(corpora: Iterable[CorpusFile], languages: LanguagePair | None) -> Iterator[SentencePair]:
    return (pair for corpus in corpora for pair in read_pairs(corpus, languages))


def _file_names(corpus: CorpusFile) -> str:
    return " and ".join(map(str, corpus.files.values()))


def _names(request: InitRequest) -> str:
    return " and ".join(printable(str(path)) for path in request.text)


def _held_out(
    request: InitRequest, profile: TextProfile, corpora: dict[str, list[CorpusFile]], languages: LanguagePair
) -> dict[str, list[SentencePair]]:
    """Return the validation and the test text, unless they are given. Raises DataError if there is too little."""
    usable, names = profile.distinct, _names(request)
    if usable < _LEAST_PAIRS:
        empty = f" and {profile.empty:,} with an empty side" if profile.empty else ""
        pairs = f"found {counted(usable, 'different sentence pair')}{empty}"
        raise DataError(f"{names}: {pairs}; at least {_LEAST_PAIRS} are needed, and thousands for a useful translator")
    sizes = {part: getattr(request, f"{part}_size") or held_out_size(usable) for part in request.held_out}
    train, *given = corpora.values()
    others = _pairs(chain.from_iterable(given), languages)
    chosen = list(islice(choose(profile.sample, _pairs(train, languages), others), total := sum(sizes.values())))
    if len(chosen) < total or 2 * total > usable:
        raise DataError(
            f"{names}: too few different sentences of at most 1,000 characters that are decoded right, in at most "
            f"{MOST_PAIRS} pairs, differ from their translations, and are not in a text of --valid or --test, to hold "
            f"out {total:,} pairs, which may be half of the text; remove repeated lines, give a smaller "
            "--valid-size and --test-size, or these texts with --valid and --test"
        )
    rest = iter(chosen)
    return {part: list(islice(rest, size)) for part, size in sizes.items()}


def _text_settings(
    request: InitRequest, corpora: dict[str, list[CorpusFile]], languages: LanguagePair, model: "Description | None"
) -> dict[str, Setting]:
    """Return the languages and the texts of a recipe; a model to train further keeps all its target languages."""
    targets = (languages.target,) if model is None else model.languages.target
    target, of_text = targets[0], ""
    if len(targets) > 1:
        target, of_text = f"[{', '.join(targets)}]", f", target_language: {languages.target}"
    texts = {part: [_text_setting(request, corpus) for corpus in given] for part, given in corpora.items()}
    texts |= {part: [f"file: {_quoted(path.name)}"] for part, path in request.held_out.items()}
    data = {part: ", ".join(f"{{{text}{of_text}}}" for text in given) for part, given in texts.items()}
    return {
        "languages": Setting(f"{{source: {languages.source}, target: {target}}}"),
        "data.train": Setting(f"[{data['train']}]"),
        "data.valid": Setting(data["valid"]),
        "data.test": Setting(data["test"]),
    }


def _filters(model: "Description | None", keeps_language: bool, is_mixed: bool) -> dict[str, Setting]:
    """Return the filters of a text; `is_mixed` if lines of it are in other languages, which are removed."""
    rules = {"language": "true"} if is_mixed else {"keep": "[language]"} if keeps_language else {}
    if model is not None and model.model.longest < Filters().max_tokens + FURTHER_TOKENS:
        rules["max_tokens"] = str(model.model.longest - FURTHER_TOKENS)
    value = ", ".join(f"{key}: {value}" for key, value in rules.items())
    reason = "lines in other languages are removed" if is_mixed else ""
    return {"data.filters": Setting(f"{{{value}}}", reason)} if rules else {}


def _text_setting(request: InitRequest, corpus: CorpusFile) -> str:
    """Return the keys of a given text. Paths are relative to the recipe."""
    text: dict[str, object] = {key: os.path.relpath(path, request.output.parent) for key, path in corpus.files.items()}
    text |= {} if corpus.columns == (1, 2) else {"columns": corpus.columns}
    return ", ".join(f"{key}: {_quoted(value)}" for key, value in text.items())


def initial_description(initial: Path, languages: LanguagePair) -> "Description":
    """Return the description of a model to train further. Raises ConfigError if it has other languages."""
    from nmt.model.stored import description_of, resolve_model

    model = description_of(resolve_model(initial))
    if languages.source != model.languages.source or languages.target not in model.languages.target:
        raise ConfigError(
            f"--from {initial}: it translates {model.languages.names}, but the text is {languages.source} → "
            f"{languages.target}; state --languages if this is wrong, or leave --from out"
        )
    return model


def _quoted(value: object) -> str:
    """Return a value as JSON, which YAML reads as the same value."""
    return _in_yaml(json.dumps(value, ensure_ascii=False))


def _in_yaml(text: str) -> str:
    r"""Return text with characters that YAML does not permit, or takes for line ends, escaped, as `\u2028`."""
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _comments_and_settings(
    names: str, profile: TextProfile, minutes: float | None, console: Console
) -> tuple[list[str], dict[str, Setting]]:
    """Return comments on the text and on the time of training, and the settings that fit them."""
    vocabulary, tokens = profile.tokens()
    with console.status("measuring the speed of this machine"):
        from nmt.training.trial import cost  # imports torch, after all errors in the text were reported

        proposal, device, (low, high) = cost(lambda kind, rate: propose(tokens, vocabulary, kind, rate, minutes))
    unit, factor, digits = ("seconds", 60, 0) if low < 1 else ("minutes", 1, 0) if high < 120 else ("hours", 1 / 60, 1)
    time = f"{low * factor:,.{digits}f} to {high * factor:,.{digits}f} {unit}"
    until = "All" if minutes is None else f"The training ends after {minutes:g} minute{'s' * (minutes != 1)}. About"
    empty = f", {profile.empty:,} of them with an empty side, which are not trained on" if profile.empty else ""
    if (usable := profile.pairs - profile.empty) > 1.02 * profile.distinct:
        empty += f", about {usable - profile.distinct:,} that repeat others (exact repetitions are not trained on)"
    comments = [
        f"{names}: {profile.pairs:,} sentence pairs{empty}, about {tokens[0]:,} source and {tokens[1]:,} target "
        "tokens.",
        "Pairs that share a sentence with the validation or test text are not trained on (rule leak). The text itself "
        "is not changed.",
        f"{until} {proposal.steps:,} steps take {time} on this machine ({device}), computed from its "
        "rate of matrix products; nmt train --dry-run measures it.",
        *([_OF_LITTLE_TEXT] if tokens[1] < _LITTLE_TEXT else []),
    ]
    tokenizer = (
        f"about {vocabulary:,} pieces for this text: the characters and bytes, and 1.8 times the square root of "
        f"{sum(profile.characters):,} characters; little text needs few pieces (Sennrich & Zhang 2019)"
    )
    return comments, {"tokenizer": Setting("{vocab_size: auto}", tokenizer), **proposal.settings}


def _fine_tuning(
    request: InitRequest, initial: Path, names: str, profile: TextProfile
) -> tuple[list[str], dict[str, Setting]]:
    """Return comments on the text, and the settings to fine-tune a model: a short training at a low rate."""
    import torch

    from nmt.formats.new_pieces import with_new_pieces
    from nmt.model.checkpoint import load_model, write_model
    from nmt.model.stored import resolve_model

    loaded, origin = load_model(resolve_model(initial), torch.device("cpu")), ""
    tokens, lacking = _tokens(profile, loaded.tokenizers)
    if request.new_pieces:
        origin = f" It is {initial} with new pieces, without which there are {tokens[0]:,} and {tokens[1]:,} tokens."
        source, target, _ = zip(*profile.sample, strict=True)
        loaded = with_new_pieces(loaded, source, target, request.new_pieces)
        tokens, lacking = _tokens(profile, loaded.tokenizers)
        initial = request.output.with_name(f"{request.prefix}initial")
        with new_directory(initial) as staging:
            write_model(staging, loaded)
    steps = max(100, round((3 if tokens[1] > 1_000_000 else 5) * tokens[1] / _TUNING_TOKENS))
    minutes = f"minutes: {request.minutes:g}, " if request.minutes else ""
    characters = "no character of it"
    if lacking:
        characters = f"{counted(len(lacking), 'character')} of the text: {' '.join(lacking[:40])}"
    comments = [
        f"{names}: {profile.pairs:,} sentence pairs, about {tokens[0]:,} source and {tokens[1]:,} target tokens of the "
        f"tokenizer of {initial}, which lacks {characters}.{origin}",
        "A model forgets what this text does not have. Add general text to data.train, and compare both models on a "
        "general text: nmt translate --model DIR, and nmt score AFTER REFERENCE --baseline BEFORE.",
    ]
    settings = {
        "train.init_from": Setting(_quoted(os.path.relpath(initial, request.output.parent)), "sizes and tokenizer too"),
        "train.batch_tokens": Setting(str(_TUNING_TOKENS)),
        "train.schedule": Setting(
            f"{{name: linear, rate: 2e-4, warmup: {max(10, steps // 10)}}}", "low, so that little is forgotten"
        ),
        "train.stop": Setting(f"{{steps: {steps}, {minutes}patience: 5}}"),
        "train.validate_every": Setting(str(max(10, steps // 10))),
    }
    return comments, settings


def _tokens(profile: TextProfile, tokenizers: Tokenizers) -> tuple[list[int], list[str]]:
    """Return about how many tokens each side of a text has, and its characters without a piece."""
    tokens, lacking = [], set[str]()
    both, sides = (tokenizers.source, tokenizers.target), [*zip(*profile.sample, strict=True)][:2]
    for tokenizer, lines, count in zip(both, sides, profile.characters, strict=True):
        pieces = sum(len(tokenizer.encode(line)) for line in lines)
        tokens.append(round(count * pieces / sum(map(len, lines))) + profile.distinct)
        lacking |= {*b"".join(part for _, part in tokenizer.without_piece("".join(lines))).decode()} - {" "}
    return tokens, sorted(lacking)


def _recipe_text(comments: Iterable[str], settings: Mapping[str, Setting]) -> str:
    """Return a recipe as YAML: comments at its head, and the settings by their keys, with their reasons as comments."""
    lines = ["# Written by nmt init. In the folder `run`, recipe.yaml will have all keys with their defaults."]
    section = ""
    lines += [line for comment in comments for line in _comment(comment, "")]
    for key, setting in settings.items():
        before, (section, _, name) = section, key.rpartition(".")
        if section not in ("", before):
            lines.append(f"{section}:")
        indent = "  " if section else ""
        lines += [*_comment(setting.reason, indent), f"{indent}{name}: {setting.value}"]
    return "\n".join(lines) + "\n"


def _comment(text: str, indent: str) -> list[str]:
    return [f"{indent}# {line}" for part in text.split("\n") for line in _COMMENT.wrap(_in_yaml(part))]
