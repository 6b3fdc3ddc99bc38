"""Chunks of a text after the rules on text, block by block."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import CorpusFile, Filters, LanguagePair
from nmt.system.console import Console
from nmt.text.filters import PairFilter
from nmt.text.passage_keys import TextLines
from nmt.text.preparing import chunks
from nmt.text.preparing.chunk_files import KeptChunk
from nmt.text.preparing.chunks import RawChunk, Text, filter_chunk

RULES = PairFilter.learn(Filters(), LanguagePair("en", "it"))
PAIRS = [(f"The house  number {n}.", f"La casa numero {n}." if n % 5 else "") for n in range(1, 24)]


def raw_chunk(pairs: list[tuple[str, str]], block: int) -> RawChunk:
    blocks = [pairs[start : start + block] for start in range(0, len(pairs), block)]
    sources, targets = (["\n".join(pair[side] for pair in own) for own in blocks] for side in (0, 1))
    return RawChunk(0, 0, 1, np.arange(1, len(pairs) + 1), sources, targets, [(0, "a.tsv")])


def filtered(folder: Path, rules: PairFilter, chunk: RawChunk) -> KeptChunk:
    folder.mkdir()
    corpora = (CorpusFile(file=Path("a.tsv")),)
    recipe: Any = SimpleNamespace(target_of=lambda corpus: "it")
    filter_chunk(Text(folder, corpora, (rules,), recipe, Console(quiet=True)), chunk)
    return KeptChunk(folder, 0)


def lines_of(lines: TextLines) -> list[str]:
    return [lines[index] for index in range(len(lines))]


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))))
def test_lines_and_lengths_of_a_text_are_kept(lines: list[str]) -> None:
    text = TextLines.of(lines)
    lines = [] if lines == [""] else lines  # a text without bytes
    assert lines_of(text) == lines
    assert text.characters.tolist() == list(map(len, lines))


@pytest.mark.parametrize("least", [1, 1000])
def test_pairs_are_filtered_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    monkeypatch.setattr(chunks, "_LEAST_PREFILTERED", least)
    whole = filtered(tmp_path / "whole", RULES, raw_chunk(PAIRS, len(PAIRS)))
    sources, targets = lines_of(whole.source), lines_of(whole.target)
    assert sources == [source.replace("  ", " ") for source, target in PAIRS if target]
    assert targets == [target for _, target in PAIRS if target]
    assert whole["positions"].tolist() == [index for index, (_, target) in enumerate(PAIRS) if target]
    assert [rejected.pair.line for rejected in whole.removed(np.zeros(len(sources), dtype=np.uint8))] == [5, 10, 15, 20]
    assert whole.record.characters == (len("".join(sources)), len("".join(targets)))
    assert len(set(whole["digests"].tolist())) == len(sources)
    for block in (1, 4, 5):
        parts = filtered(tmp_path / str(block), RULES, raw_chunk(PAIRS, block))
        assert parts.record == whole.record
        assert (lines_of(parts.source), lines_of(parts.target)) == (sources, targets)
        assert parts["digests"].tolist() == whole["digests"].tolist()


def test_chunk_without_pairs_that_are_kept(tmp_path: Path) -> None:
    empty = filtered(tmp_path / "empty", RULES, raw_chunk([("a", ""), ("", "b")], 1))
    assert (len(empty.source), len(empty["digests"]), empty.record.characters) == (0, 0, (0, 0))


@pytest.mark.parametrize(("pairs", "calls"), [(4_999, 0), (5_000, 2)])
def test_prefilter_is_for_large_texts(tmp_path: Path, pairs: int, calls: int) -> None:
    """Its tables take more time than the checks of some thousand pairs."""
    seen = []

    def examined(sources: list[str], targets: list[str]) -> list[int]:
        seen.append(len(sources))
        return []

    rules: Any = replace(RULES, prefilter=SimpleNamespace(examined=examined))
    filtered(tmp_path / "chunk", rules, raw_chunk([("the house", "la casa")] * pairs, 2_500))
    assert seen == [2_500] * calls


@pytest.mark.slow
def test_records_hold_lines_of_any_length(tmp_path: Path) -> None:
    """A record has examples of removed pairs; metadata of 100 MB is too large for safetensors."""
    line = "a" * 51_000_000
    chunk = filtered(tmp_path / "long", RULES, raw_chunk([(line, ""), ("", line)], 2))
    assert [len(rejected.pair.source) for rejected in chunk.record.counts.examples["empty"]] == [len(line), 0]
