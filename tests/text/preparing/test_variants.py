"""Variants: what is derived from a pair, by hand; shares, places, leaks and limits in a prepared corpus."""

from collections import Counter
from pathlib import Path

import pytest

from nmt.commands.prepare import dry_run, prepare
from nmt.config import Filters, LanguagePair, Variants
from nmt.errors import ConfigError
from nmt.system.console import Console
from nmt.text.prepared import PreparedCorpus
from nmt.text.preparing.audit import Audit
from nmt.text.preparing.rules import Rules, letters
from nmt.text.preparing.variants import Pair, capitals, emoji, items, joined, title, unmarked, variants_of
from nmt.text.readers import SentencePair
from nmt.text.tokenizer import ITEMS
from tests.builders import demo_pairs, recipe_in, run_command, write_recipe, write_tsv

QUIET = Console(quiet=True)


@pytest.mark.parametrize(
    ("function", "pair", "expected"),
    [
        (capitals, ("My father’s.", "Perché è qui?"), ("MY FATHER’S.", "PERCHÉ È QUI?")),
        (capitals, ("Tom ran.", "Tom跑了。"), ("TOM RAN.", "TOM跑了。")),
        (capitals, ("Tom跑了。", "Tom ran."), None),  # a source without case would have two translations
        (capitals, ("A street.", "Eine Straße."), None),  # STRASSE
        (capitals, ("TOM?", "Tom?"), None),
        (capitals, ("Press {key}.", "Premi {key}."), None),
        (title, ('Don\'t "stop now".', "Non l'ho visto."), ('Don\'t "Stop Now".', "Non L'ho Visto.")),
        (title, ("Stop.", "Ferma tutto."), None),
        (unmarked, ("Is he? No.", "是吗？不。"), ("Is he? No", "是吗？不")),
        (unmarked, ("Is he?", "Sì."), None),
        (unmarked, ("Well...", "Beh..."), None),
        (unmarked, ("At 5 p.m.", "Alle 17."), None),
        (items, ("Tom has 3.", "3 li ha Tom."), ("<i1> has <i2>.", "<i2> li ha <i1>.")),
        (items, ("At 9:30, see https://x.org/9.", "9:30看https://x.org/9。"), ("At <i1>, see <i2>.", "<i1>看<i2>。")),
        (items, ("Ann, Bo, Cy, Di.", "Ann, Bo, Cy, Di."), ("<i1>, <i2>, <i3>, Di.", "<i1>, <i2>, <i3>, Di.")),
        (items, ("Tom and Tom.", "Tom."), None),
        (items, ("3 of 33, B3", "33"), ("3 of <i1>, B3", "<i1>")),
        (items, ("Tommy.", "Tom."), None),
        (items, ("Write <i1> to Tom.", "Scrivi <i1> a Tom."), None),
        (items, ("In 2 days.", "In 2 giorni."), ("In <i1> days.", "In <i1> giorni.")),
    ],
)  # fmt: skip
def test_pair_is_derived_by_hand(function: object, pair: Pair, expected: Pair | None) -> None:
    assert callable(function)
    assert (function(pair, {"in"}) if function is items else function(pair)) == expected


def test_symbols_are_numbered_cyclically() -> None:
    pair = ("Ann, Bo, Cy, Di.", "Di, Cy, Bo, Ann.")
    assert items(pair, first=2) == ("<i3>, <i1>, <i2>, Di.", "Di, <i2>, <i1>, <i3>.")


def test_pairs_are_joined_as_their_languages_are_written() -> None:
    pairs = [("Tom ran.", "汤姆跑了。"), ("“Why?”", "“为什么？”"), ("No", "不。"), ("No.", "不。")]
    assert joined(pairs[:2], (" ", "")) == ("Tom ran. “Why?”", "汤姆跑了。“为什么？”")
    for others in (pairs[:1], pairs[:3], pairs[2:], [pairs[0], pairs[0]]):
        assert joined(others, (" ", "")) is None
    assert {emoji(pairs[0], number, (" ", "")) for number in (16, 17)} == {
        ("😉 Tom ran.", "😉汤姆跑了。"), ("Tom ran. 😉", "汤姆跑了。😉"),
    }  # fmt: skip


def test_each_kind_has_its_share_and_no_held_out_sentence() -> None:
    pairs = [(f"We see {n} green trees.", f"Vediamo {n} alberi verdi.") for n in range(400)]
    leak = [SentencePair(f"{pairs[n][0]} {pairs[n + 1][0]}", "x") for n in range(399)]
    rules = Rules.learn(Filters(), LanguagePair("en", "it"), (), {"test": leak})
    shares = Variants(joined=0.25, capitals=0.5, unmarked=0, items=1, emoji=0.02)
    found = [*variants_of(pairs, shares, rules)]
    assert Counter(kind for _, kind, _ in found) == {"joined": 100, "capitals": 200, "items": 400, "emoji": 8}
    assert len(found) == len({(index, kind) for index, kind, _ in found})  # no pair twice
    assert not {letters(pair[0]) for _, _, pair in found} & {letters(pair.source) for pair in leak}
    assert 40 < sum("See" in source for _, _, (source, _) in found) < 95
    turkish = variants_of(pairs, Variants(capitals=1), Rules.learn(Filters(), LanguagePair("en", "tr")))
    assert "capitals" not in {kind for _, kind, _ in turkish}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a recipe of an Italian and a Chinese text."""
    rows = [(f"{source[:-1]} {n}.", f"{target[:-1]} {n}.") for n, (source, target) in enumerate(demo_pairs(300))]
    write_tsv(tmp_path / "it.tsv", [*rows, *rows[:50]])
    write_tsv(tmp_path / "zh.tsv", demo_pairs(100, 300, target=2))
    write_tsv(tmp_path / "valid.tsv", demo_pairs(20, 1000))
    texts = [{"file": "it.tsv", "target_language": "it"}, {"file": "zh.tsv", "target_language": "zh"}]
    write_recipe(
        tmp_path,
        languages={"source": "en", "target": ["it", "zh"]},
        data={"train": texts, "valid": {"file": "valid.tsv", "target_language": "it"}},
        model={"tied_embeddings": "none"},
        prepared="prepared",
    )
    return tmp_path


def texts_of(corpus: PreparedCorpus) -> list[Pair]:
    tokenizers, train = corpus.tokenizers, corpus.train
    sides = zip(train.source, train.target, strict=True)
    return [(tokenizers.source.decode(source), tokenizers.target.decode(target)) for source, target in sides]


def test_prepared_corpus_keeps_the_pairs_and_counts_what_is_added(folder: Path) -> None:
    plain = prepare(recipe_in(folder), QUIET)
    corpus, rejected = prepare(recipe_in(folder, "data.variants={}"), QUIET), folder / "rejected.tsv"
    added = [audit.added for audit in Audit.read(folder / "prepared").corpora]
    assert [own["joined"] for own in added[:2]] == [30, 10]
    assert added[0] == {"joined": 30, "capitals": 9, "unmarked": 15, "items": 15, "emoji": 6}
    assert added[2] == {}
    assert plain.manifest.train.corpora == (300, 100)
    assert corpus.manifest.train.corpora == (300 + sum(added[0].values()), 100 + sum(added[1].values()))
    originals, rest = texts_of(plain), iter(texts_of(corpus))
    assert all(pair in rest for pair in originals)  # in their order
    new = Counter(texts_of(corpus)) - Counter(originals)
    for symbol in (*ITEMS, "😀", "♪"):
        assert all(symbol not in source or symbol in target for source, target in new)
    assert all(target == target.upper() for source, target in new if source == source.upper())
    symbols = [sum(symbol in source for source, _ in new) for symbol in ITEMS]
    assert sum("<i" in source for source, _ in new) == sum(own.get("items", 0) for own in added)
    assert min(symbols) > 0

    limited = recipe_in(folder, "data.variants={}", "data.filters.max_tokens=40")
    longest = prepare(limited, QUIET, rejected=rejected)
    rows = [line.split("\t") for line in rejected.read_text(encoding="utf-8").splitlines()]
    assert {"joined"} <= {found for rule, _, found, *_ in rows if rule == "too_long"}
    assert all(place.rpartition(":")[2].isdigit() for _, place, *_ in rows)
    audits = Audit.read(folder / "prepared").corpora[:2]
    assert longest.manifest.train.corpora == tuple(audit.kept for audit in audits)
    assert [audit.added for audit in audits] == added[:2] == [own.added for own in dry_run(limited, QUIET).corpora[:2]]
    result = run_command("prepare", "-c", folder / "recipe.yaml", "--dry-run", "--set", "data.variants={}")
    assert [line.split() for line in result.stderr.splitlines() if "added joined" in line] == [
        ["added", "joined", "30", "10", "0"]
    ]


def test_symbols_of_items_are_pieces_of_the_tokenizer(folder: Path) -> None:
    for shared in ("true", "false"):
        tokenizers = prepare(recipe_in(folder, "data.variants={}", f"tokenizer.shared={shared}"), QUIET).tokenizers
        for tokenizer in (tokenizers.source, tokenizers.target):
            pieces = [tokenizer.pieces[i] for i in tokenizer.encode("We see <i1>, <i3><i2>.")]
            assert tokenizer.items == ITEMS
            assert [piece for piece in pieces if "<" in piece] == ["<i1>", "<i3>", "<i2>"]
    assert prepare(recipe_in(folder, "data.variants={items: 0}"), QUIET).tokenizers.source.items == ()
    prepare(recipe_in(folder), QUIET).tokenizers.save(folder)
    (folder / "config.json").write_text('{"format_version": 1, "model": {"tied_embeddings": "none"}}')
    with pytest.raises(ConfigError, match=r"data\.variants\.items: the tokenizer of train\.init_from .* set it to 0"):
        prepare(recipe_in(folder, "tokenizer={}", f"train.init_from={folder}", "data.variants={}"), QUIET)


def test_corpus_without_variants_is_that_of_a_recipe_without_them(folder: Path) -> None:
    none = "{joined: 0, capitals: 0, unmarked: 0, items: 0, emoji: 0}"
    fingerprints = [
        prepare(recipe_in(folder, f"data.variants={value}"), QUIET).manifest.fingerprint
        for value in ("null", none, "{}", "null")
    ]
    assert len({*fingerprints}) == 2
    assert fingerprints[0] == fingerprints[1] == fingerprints[3]
