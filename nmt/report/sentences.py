"""Sentences that the report draws in detail: translated, aligned, with attention and with the tree of their search."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.config import Recipe
from nmt.decoding.alignment import Attention, Links, attention
from nmt.decoding.options import SearchOptions
from nmt.errors import DataError
from nmt.model.checkpoint import resolve_model
from nmt.report.beam_tree import BeamTree, search_tree
from nmt.system.console import counted
from nmt.text.corpus import read_pairs
from nmt.text.prepared import PreparedCorpus
from nmt.translation.translator import Translator

_LONGEST = 80
"""Tokens. Figures of longer sentences cannot be read."""
_MOST_WEIGHTS = 3_000_000
"""Attention weights of all sentences in a page, of which each takes 1.3 bytes."""
_DRAWN = 3
"""The number of lines that are drawn unless others are chosen."""


@dataclass(frozen=True)
class DrawnSentence:
    """A line of a text with what a model computes for it."""

    line: int
    """Counted from 1."""
    source: str
    translation: str
    attention: Attention
    links: Links
    """Between the words of `nmt.text.segment`."""
    pieces: list[str]
    """All pieces of the target vocabulary."""
    options: SearchOptions
    tree: BeamTree
    """Without nodes where the recipe sets `decode.sampling`: then there is no beam search."""

    @property
    def weight_count(self) -> int:
        """The number of attention weights of all layers and heads."""
        weights = self.attention.weights
        return sum(part.numel() for part in (weights.encoder, weights.decoder, weights.cross))


def drawn_sentences(
    run: Path, recipe: Recipe, lines: Sequence[int], prepared: Path
) -> tuple[list[DrawnSentence], list[str]]:
    """Return lines of the test texts, else of the validation texts, and a remark for each that cannot be drawn.

    Of a run that was made elsewhere, the validation text in its prepared corpus may be all that is left. Raises
    DataError if there is no text, or for a line that it does not have, ModelError without a checkpoint.
    """
    remarks = []
    try:
        sources = source_lines(recipe, lines)
    except DataError as error:
        sources = [] if lines else _prepared_sources(recipe, prepared)
        if not sources:
            raise
        remarks.append(f"These are lines of the validation text, since the test text cannot be read: {error}")
    chosen = lines or _first_lines([language for _, language in sources])
    translator = Translator.load(resolve_model(run))
    drawn, room = [], _MOST_WEIGHTS
    for line in chosen:
        source, language = sources[line - 1]
        size = len(translator.models[0].tokenizers.source.encode(source))
        if not 0 < size <= _LONGEST:
            remarks.append(f"Line {line} has {size} tokens; lines of 1 to {_LONGEST} tokens are drawn.")
            continue
        one = draw_sentence(translator, line, source, language)
        if one.weight_count > room:
            length = len(one.attention.target)
            remarks.append(
                f"Line {line} is left out: {size} source and {length} target tokens make the page too large."
            )
            continue
        drawn.append(one)
        room -= one.weight_count
    return drawn, remarks


def source_lines(recipe: Recipe, lines: Sequence[int]) -> list[tuple[str, str]]:
    """Return all lines of the test texts, else of the validation texts, each with its target language.

    Raises DataError if the recipe names neither text or if one of `lines` is beyond the end.
    """
    corpora = recipe.data.test or recipe.data.valid
    if not corpora:
        raise DataError("the recipe has no test and no validation text to take sentences from")
    sources = [
        (pair.source, recipe.target_of(corpus))
        for corpus in corpora
        for pair in read_pairs(corpus, recipe.languages_of(corpus))
    ]
    if beyond := [line for line in lines if line > len(sources)]:
        raise DataError(f"--line: found {beyond[0]}, but the text has {counted(len(sources), 'line')}")
    return sources


def _prepared_sources(recipe: Recipe, prepared: Path) -> list[tuple[str, str]]:
    """Return the validation texts of a prepared corpus as `source_lines` does; none if it cannot be read."""
    try:
        texts = PreparedCorpus.open(prepared).valid_texts
    except DataError:
        return []
    both = zip(recipe.data.valid, texts, strict=False)
    return [(source, recipe.target_of(text)) for text, (sources, _) in both for source in sources]


def _first_lines(languages: Sequence[str]) -> list[int]:
    """Return the lines that are drawn unless others are chosen: as many of each target language."""
    codes = list(dict.fromkeys(languages))
    starts = [languages.index(code) for code in codes]
    chosen = [start + line for start in starts for line in range(1, 1 + -(-_DRAWN // len(codes)))]
    return [line for line in dict.fromkeys(chosen) if line <= len(languages)]


def draw_sentence(translator: Translator, line: int, source: str, language: str | None = None) -> DrawnSentence:
    """Translate a sentence as `nmt translate` does, and record its search."""
    loaded, options = translator.models[0], translator.options(to=language)
    (translation,) = translator.translate([source], options)
    (links,) = translator.align([(source, translation.text)], options)
    tags = translator.tag_ids(options)
    search = options.search
    tree = BeamTree(search.beam)
    if search.sampling is None:
        tree, _ = search_tree(loaded.model, [*tags, *loaded.tokenizers.source.encode(source)], search)
    pieces = loaded.tokenizers.target.pieces
    found = attention(loaded, source, translation.text, tags)
    return DrawnSentence(line, source, translation.text, found, links, pieces, search, tree)
