"""The audit of a text: what each rule removed, with examples, and what is unusual about each corpus.

Findings are properties of a whole corpus, such as lowercase text, tokenized text, or lines that do not correspond. They
are estimated from a sample of its pairs; only the rules count over all pairs.

The audit is `audit.json` in the folder of the prepared corpus. It does not depend on the folder of the text: files are
named without folders.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from itertools import chain
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from nmt.config import CorpusFile, Filters, LanguagePair
from nmt.system.console import counted
from nmt.text.content import content_diff
from nmt.text.corpus import SAMPLE
from nmt.text.languages import Variant, other_variant, primary_code, script_of, variant_of, wrong_language
from nmt.text.manifest import UnusableCorpusError
from nmt.text.normalize import PIECES, normalize
from nmt.text.preparing.rules import damage, letters
from nmt.text.readers import SentencePair
from nmt.text.readers.tables import first_unrelated

_LEAST_LINES = 100  # with fewer only damage is found
_CASED = ("Latin", "Cyrillic", "Greek", "Armenian")
_TOKENIZED = re.compile(
    r"(?<=\w) (?:[.,]|['’](?:re|ve|ll)|n't)(?= |$)"
)  # French has spaces before ? ! : ; and Dutch before 's
_EXAMPLES = 3  # of a finding; a property needs more lines than these
_LEAST_REPEATED = 10  # different lines beside a repeated one
_LEAST_SHARED = 0.05  # share of the validation pairs that are in the test text
_JUDGED = 1_000  # lines of a sample for what takes long
_QUOTED = re.compile(r'"(?:[^"]|"")+"')  # as in CSV, with doubled quotes inside
_CODE_ITEM = re.compile(r"[<{%\\@#$]|\.[a-z]{2}")  # not `5.3.2020` of German, `3~5일`, ♪
_ENTITY = re.compile(r"&(?:#\d+|#x[\da-f]+|[a-z]\w+);", re.I)
_WITHOUT_ACCENT = re.compile(r"\b(?:(?:perch|poich|cio)e|piu|puo|citta|gia|cosi)\b|\be['’](?!\w)", re.I)  # Italian


@dataclass(frozen=True)
class Remark:
    """One property of a corpus, with places and texts that show it."""

    corpus: str
    text: str
    examples: tuple[str, ...] = ()
    rule: str = ""  # the rule, if any, that would remove such pairs

    def __str__(self) -> str:
        return "\n    ".join([f"{self.corpus}: {self.text}", *self.examples])


@dataclass(frozen=True)
class _Property:
    """A property of one side of a corpus, and how a line shows it."""

    shows: Callable[[str], object]
    least: float  # the share of lines above which the corpus has the property; with 0, one line is enough
    text: str
    judged: int = SAMPLE  # lines of the sample that are judged, evenly spread
    rule: str = ""  # the rule, if any, that would remove these lines


def findings(
    corpus: str, languages: LanguagePair, sample: Iterable[SentencePair], filters: Filters | None = None
) -> list[Remark]:
    """Return all findings about a corpus; `corpus` is its name in the audit, `sample` the result of `sample_of`.

    `filters` are applied to the corpus later: what they remove or convert is not reported.
    """
    remarks, sample = list[Remark](), [pair for pair in sample if pair.source.strip() and pair.target.strip()]
    if not sample:
        return [Remark(corpus, "there are no sentence pairs in it")]
    first = first_unrelated([len(pair.source) for pair in sample], [len(pair.target) for pair in sample])
    if first is not None:
        text = f"the lengths of both sides stop corresponding at about line {sample[first].line:,}"
        remarks.append(Remark(corpus, text))
    for side, code in languages._asdict().items():
        lines = [(pair.line, getattr(pair, side)) for pair in sample]
        for possible in chain(_properties(code, filters), _properties_of_pairs(sample, side)):
            judged = lines[:: -(-len(lines) // possible.judged)]
            shown = [f"line {number}: {line}" for number, line in judged if possible.shows(line)]
            if possible.least == 0:
                is_found, share = bool(shown), f"{len(shown):,} of {counted(len(judged), 'line')}"
            else:
                is_found = len(lines) >= _LEAST_LINES and len(shown) > max(possible.least * len(judged), _EXAMPLES)
                share = f"{len(shown) / len(judged):.1%} of the lines"
            if is_found:
                text = f"the {side} ({code}) {possible.text.format(share)}"
                remarks.append(Remark(corpus, text, tuple(shown[:_EXAMPLES]), possible.rule))
    return remarks


def shared_pairs(valid: Sequence[SentencePair], test: Sequence[SentencePair]) -> list[Remark]:
    """Return the finding that many pairs of the validation text are in the test text, none if there are few."""
    tested = {(letters(pair.source), letters(pair.target)) for pair in test} - {("", "")}
    shared = [pair for pair in valid if (letters(pair.source), letters(pair.target)) in tested]
    if not shared or len(shared) < _LEAST_SHARED * len(valid):
        return []
    advice = "training chooses its best checkpoint by them, so that test scores are too high; name another text"
    text = f"{len(shared) / len(valid):.1%} of the pairs are in the test text: {advice}"
    return [Remark("data.valid", text, tuple(f"{pair.source} | {pair.target}" for pair in shared[:_EXAMPLES]))]


def _properties(code: str, filters: Filters | None) -> Iterator[_Property]:
    script = script_of(code)
    text = "has no letters in {}: if these are numbers or ids, `columns` states which columns have the text"
    yield _Property(lambda line: not any(map(str.isalpha, line)), 0.02, text)
    if filters is not None and not filters.language and "language" not in filters.keep:
        text = "is in another language in {}: data.filters.language: true removes such pairs"
        yield _Property(lambda line: wrong_language(normalize(line), code), 0.005, text, _JUDGED, "language")
    advice = "convert the file again; the rule damaged removes such pairs from training text only"
    yield _Property(damage, 0, f"is decoded wrongly in {{}}: {advice}")
    advice = "another program divided it into pieces; join them, since nmt makes its own"
    yield _Property(PIECES.search, 0.02, f"has the marks of pieces in {{}}: {advice}")
    advice = "replace them by their characters, as html.unescape of Python does, or users' text differs from it"
    yield _Property(_has_entity, 0.02, f"has entities of HTML in {{}}: {advice}")
    advice = "quotes around a whole line are those of CSV; remove them, or give the file a name that ends in .csv"
    yield _Property(_QUOTED.fullmatch, 0.8, f"is in quotes in {{}}: {advice}")
    yield _Property(lambda line: '""' in line[1:-1] and _QUOTED.fullmatch(line), 0.002, f'has `""` in {{}}: {advice}')
    if primary_code(code) == "it":
        text = "has `e'`, `perche` and the like in {}: write è and perché, or a model writes both"
        yield _Property(_WITHOUT_ACCENT.search, 0.005, text)
    if script in _CASED:
        text = "has no capital letters: a model trained on it outputs small letters only"
        yield _Property(lambda line: line == line.lower(), 0.99, text)
    if script not in ("Han", "Japanese"):  # whose spaces are removed
        advice = "a tokenizer put spaces before punctuation; detokenize it, or users' text differs from it"
        yield _Property(_TOKENIZED.search, 0.05, f"is tokenized in {{}}: {advice}")
    if script == "Han" and (filters is None or filters.han_variants == "keep"):
        expected = variant_of(code, ()) or "Simplified"
        other: Variant = "Traditional" if expected == "Simplified" else "Simplified"
        advice = "data.filters.han_variants converts such lines; if the whole text is to be in it, set the language"
        text = f"is {other} Chinese in {{}}: {advice} to {'zh-Hant' if other == 'Traditional' else 'zh-Hans'}"
        yield _Property(lambda line: _is_other_variant(line, expected, other), 0.02, text)


def _properties_of_pairs(sample: Sequence[SentencePair], side: str) -> Iterator[_Property]:
    """Yield the properties of a side that its lines show by what is beside them."""
    different = {(pair.source, pair.target) for pair in sample}
    counts = Counter(target if side == "target" else source for source, target in different)
    repeated = {line for line, count in counts.items() if count > max(_LEAST_REPEATED, 0.01 * len(sample))}
    text = "is the same beside different sentences in {}: remove such lines, which pages have in place of a translation"
    yield _Property(repeated.__contains__, 0.01, text)
    if side == "target":
        judged = sample[:: -(-len(sample) // _JUDGED)]
        pairs = ((source, target) for source, target, _ in judged if not _has_entity(target))
        surplus = {
            target for source, target in pairs if _CODE_ITEM.search(" ".join(content_diff(source, target).surplus))
        }
        text = "has tags, addresses or placeholders that the source lacks in {}: a model learns to invent them"
        yield _Property(surplus.__contains__, 0.02, text, _JUDGED)


def _has_entity(line: str) -> bool:
    return "&" in line and any(unescape(entity) != entity for entity in _ENTITY.findall(line))


def _is_other_variant(line: str, expected: Variant, other: Variant) -> bool:
    """Whether a line is in the other variant of Chinese, or mixed: a single character may be part of a name."""
    unexpected, usual = len(other_variant(line, expected)), len(other_variant(line, other))
    return unexpected > usual or (unexpected >= 2 and unexpected >= (unexpected + usual) / 5)


FILE = "audit.json"
EXAMPLES = 5  # of the pairs that a rule removes: the first ones of the text


@dataclass(frozen=True)
class Removed:
    """A pair that a rule removed, as normalized, with its place and what was found in it."""

    rule: str
    place: str  # file and line
    reason: str
    source: str
    target: str


@dataclass
class CorpusAudit:
    """What the rules removed from one corpus."""

    name: str  # the key in the recipe and the file: `data.train.0: train.tsv`
    read: int = 0  # pairs read
    removed: Counter[str] = field(default_factory=Counter)  # pairs removed, by rule
    examples: dict[str, list[Removed]] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """Pairs that no rule removed."""
        return self.read - sum(self.removed.values())

    def add(self, removed: Removed) -> None:
        """Count a removed pair."""
        self.removed[removed.rule] += 1
        examples = self.examples.setdefault(removed.rule, [])
        if len(examples) < EXAMPLES:
            file, _, line = removed.place.rpartition(":")
            examples.append(replace(removed, place=f"{Path(file).name}:{line}"))


@dataclass
class Audit:
    """The audit of all corpora of a recipe."""

    corpora: list[CorpusAudit]
    findings: list[Remark]
    # The rules that could not be applied, and why; those in `data.filters.keep` were not applied, either.
    not_applied: dict[str, str]

    def write(self, directory: Path) -> None:
        """Write `audit.json`."""
        (directory / FILE).write_bytes(_AUDIT.dump_json(self, indent=1) + b"\n")

    @classmethod
    def read(cls, directory: Path) -> "Audit":
        """Read `audit.json` of a prepared corpus. Raises DataError if it is missing or damaged."""
        try:
            return _AUDIT.validate_json((directory / FILE).read_bytes())
        except (OSError, ValidationError):
            raise UnusableCorpusError(f"{directory / FILE}: missing or damaged") from None


_AUDIT = TypeAdapter(Audit)


def corpus_name(key: str, corpus: CorpusFile) -> str:
    """Return the name of a corpus in an audit, which does not depend on its folder."""
    language = "" if corpus.target_language is None else f" ({corpus.target_language})"
    return f"{key}: {' + '.join(path.name for path in corpus.files.values())}{language}"
