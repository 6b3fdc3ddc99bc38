"""The section Data: counts of the corpus, samples, and corpora that are gone or damaged."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from nmt.report import corpus_section as module
from nmt.report.corpus_section import corpus_section, filter_tables
from nmt.report.run_records import RunRecords
from nmt.text.manifest import Manifest
from nmt.text.prepared import PreparedCorpus
from nmt.text.preparing.audit import Audit, CorpusAudit, Removed
from nmt.text.preparing.findings import Finding
from tests.report.run_files import train_line, write_run


@pytest.fixture
def run(texts: Path, tmp_path: Path) -> RunRecords:
    """A run with a copy of the prepared reversal task."""
    path = write_run(tmp_path / "run", [train_line(10, 3.0)])
    shutil.copytree(texts / "prepared", path / "prepared")
    return RunRecords(path)


def cells(html: str, name: str) -> list[str]:
    """Return the cells of the row of a table whose first cell is `name`."""
    (row,) = re.findall(rf"<tr><td>{re.escape(name)}</td>(.*?)</tr>", html)
    return [unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]


def test_counts_equal_those_of_the_texts(run: RunRecords, texts: Path) -> None:
    pairs = [line.split("\t") for line in (texts / "train.tsv").read_text().splitlines()]
    distinct = len({tuple(pair) for pair in pairs})
    section = corpus_section(run)
    assert cells(section.html, "read") == ["", str(len(pairs)), "6"]
    assert cells(section.html, "kept")[1] == str(distinct)
    assert cells(section.html, "dropped: duplicate")[1] == str(len(pairs) - distinct)
    assert section.charts["dropped"].rows == (("duplicate", len(pairs) - distinct),)


def test_lengths_and_pieces_equal_a_count_by_hand(run: RunRecords) -> None:
    corpus = PreparedCorpus.open(run.path / "prepared")
    sentences = [corpus.train.source[i].tolist() for i in range(len(corpus.train))]
    used = Counter(piece for sentence in sentences for piece in sentence)
    section = corpus_section(run)
    assert cells(section.html, "pieces that occur")[0] == str(len(used))
    assert cells(section.html, "pieces that occur 10 times or more")[0] == str(sum(n >= 10 for n in used.values()))
    words = [len(corpus.tokenizers.source.decode(sentence).split()) for sentence in sentences]
    mean = np.mean([len(sentence) / count for sentence, count in zip(sentences, words, strict=True)])
    assert cells(section.html, "pieces")[0] == f"{mean:.2f} a word"
    lengths = Counter(map(len, sentences))
    shares = {str(row[0]): row[1] for row in section.charts["lengths"].rows}
    for length, count in lengths.items():
        share = shares.get(f"{length}–{length + 1}")
        if share is not None:
            assert share == pytest.approx(100 * count / len(sentences), rel=1e-4)
    coverage = section.charts["coverage"].rows
    assert coverage[0][1] == pytest.approx(100 * used.most_common(1)[0][1] / sum(used.values()), rel=1e-4)


def test_large_corpus_is_sampled_always_in_the_same_way(run: RunRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAIRS_MEASURED", 50)
    monkeypatch.setattr(module, "SENTENCES_READ", 20)
    section = corpus_section(run)
    assert re.search(r"a sample of 50 of \d+ pairs; words are counted in 17 sentences", section.html)
    assert section == corpus_section(run)


def test_corpus_of_another_format_is_named(run: RunRecords) -> None:
    file = run.path / "prepared" / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"format_version": 2}))
    section = corpus_section(run)
    assert section.charts == {}
    assert "found format version 2, expected 4; prepare it again with nmt prepare --force" in section.html


def test_pieces_of_chinese_are_counted_for_each_character(run: RunRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = run.path / "prepared"
    manifest = Manifest.read(directory)
    languages = {"source": "en", "target": "zh-CN"}
    replace(manifest, settings={**manifest.settings, "languages": languages}).write(directory)
    assert cells(corpus_section(run).html, "pieces")[1].endswith(" a character")


def damage_offsets(prepared: Path) -> None:
    offsets = np.load(prepared / "train" / "source.offsets.npy")
    offsets[1] = offsets[-1] + 5
    np.save(prepared / "train" / "source.offsets.npy", offsets)


def damage_tokens(prepared: Path) -> None:
    tokens = np.load(prepared / "train" / "source.tokens.npy")
    tokens[0] = 60_000
    np.save(prepared / "train" / "source.tokens.npy", tokens)


@pytest.mark.parametrize(
    "damage",
    [
        shutil.rmtree,
        lambda prepared: (prepared / "manifest.json").write_text("{"),
        lambda prepared: (prepared / "tokenizer.model").write_bytes(b"x"),
        damage_offsets,
        damage_tokens,
    ],
    ids=["gone", "manifest", "tokenizer", "offsets", "tokens"],
)
def test_corpus_that_is_gone_or_damaged_is_named(run: RunRecords, damage: object) -> None:
    damage(run.path / "prepared")  # type: ignore[operator]
    section = corpus_section(run)
    assert section.html.startswith('<p class="warning">The prepared corpus of this run cannot be read')
    assert section.charts == {}
    assert str(run.path / "prepared") in unescape(section.html)


def test_corpus_beside_the_run_is_found_when_the_run_was_moved(run: RunRecords, tmp_path: Path) -> None:
    """The recipe of a run holds absolute paths of the machine on which it was trained."""
    moved = tmp_path / "elsewhere"
    run.path.rename(moved)
    assert "Pairs kept" in corpus_section(RunRecords(moved)).html


def test_audit_is_shown_escaped_with_examples_of_each_rule() -> None:
    example = Removed("copy", "a.tsv:7", "identical", "<b>one & two</b>", "x" * 400)
    corpus = CorpusAudit("data.train.0: a.tsv", "train", 9, {"copy": 1}, {"copy": [example]})
    finding = Finding("data.train.0: a.tsv", "the source (en) has no capital letters", ("line 1: <i>",))
    html = filter_tables(Audit([corpus], [finding], {"leak": "no test text"}))
    for text in (
        "<td>dropped: copy</td>", "a.tsv:7", "&lt;b&gt;one &amp; two&lt;/b&gt;", "x" * 300 + "…", "identical",
        "the source (en) has no capital letters", "line 1: &lt;i&gt;", "The rule leak was not applied: no test text.",
    ):  # fmt: skip
        assert text in html
    assert "dropped: empty" not in html
    assert "<b>" not in html
