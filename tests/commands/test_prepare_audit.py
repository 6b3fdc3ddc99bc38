"""The audit of `nmt prepare`: planted defects are counted rule by rule, and its files are the same each time."""

import csv
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from rich.cells import cell_len

from nmt.commands.prepare import dry_run, prepare, show_audit
from nmt.errors import ConfigError
from nmt.system.console import Console
from nmt.text.preparing.audit import Audit, CorpusAudit, Removed
from nmt.text.preparing.rules import RULES
from tests.builders import demo_pairs, recipe_in, run_command, snapshot, write_recipe, write_tsv

QUIET = Console(quiet=True)


def planted(rule: str, number: int, pair: tuple[str, str]) -> tuple[str, str]:
    """Return a pair with the defect that a rule finds, made from a clean pair."""
    source, target = pair
    return {
        "empty": (source, " \u200b "),
        "damaged": (source, f"{target} Perch\ufffd?"),
        "copy": (f"Radio Roma {number}", f"radio roma {number}")
        if number % 2
        else (source, f"{source[:-1]}: {target}"),
        "symbols": (f"{number}: 100.000, 200.000, 300.000", f"{number}. 100.000; 200.000; 300.000"),
        "script": (source, f"今天第{number}次下雨，我们不去公园了"),
        "length": (source, " ".join([target] * 6)),
        "leak": (f"{HELD_OUT[number][0].upper()}!", f"{HELD_OUT[number][1]} Sì."),
        "language": (source, f"Je ne comprends pas pourquoi il a {number} livres dans la maison."),
        "duplicate": pair,
        "too_long": (f"{source} {'casa ' * 60}", f"{target} {'casa ' * 60}"),
    }[rule]


HELD_OUT, TRAIN = demo_pairs(20), demo_pairs(790, 20)
LONG = [pair for pair in TRAIN[:400] if len(pair[0]) > 40]
PLANTED = dict.fromkeys(RULES, 0) | {
    "empty": 3, "damaged": 4, "copy": 5, "symbols": 2, "script": 6, "length": 3, "leak": 5, "language": 4,
    "duplicate": 6, "too_long": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a recipe and a training text with planted defects."""
    choose, folder = random.Random(1), tmp_path_factory.mktemp("audit")
    rows = list(TRAIN)
    bad = [planted(rule, number, LONG[number]) for rule, count in PLANTED.items() for number in range(count)]
    for pair in bad:
        rows.insert(choose.randint(400, len(rows)), pair)
    write_tsv(folder / "train.tsv", rows)
    write_tsv(folder / "valid.tsv", HELD_OUT[:10])
    write_tsv(folder / "test.tsv", HELD_OUT[10:])
    write_recipe(
        folder,
        data={
            "train": [{"file": "train.tsv"}],
            "valid": {"file": "valid.tsv"},
            "test": {"file": "test.tsv"},
            "filters": {"max_tokens": 60, "language": True},
        },
        tokenizer={"vocab_size": 340},
    )
    return folder


def test_planted_defects_are_counted_rule_by_rule(folder: Path) -> None:
    rejected = folder / "rejected.tsv"
    first = prepare(recipe_in(folder), QUIET)
    corpus = prepare(recipe_in(folder), QUIET, rejected=rejected)  # though it is current
    assert corpus.manifest.fingerprint == first.manifest.fingerprint
    assert corpus.manifest.train.kept == len(TRAIN)
    with rejected.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert {rule: sum(row[0] == rule for row in rows) for rule in RULES} == PLANTED
    text = (folder / "train.tsv").read_text(encoding="utf-8").split("\n")
    for rule, place, _, source, _ in rows:
        file, _, line = place.rpartition(":")
        assert file == str(folder / "train.tsv")
        assert text[int(line) - 1].split("\t")[0].strip() == source, rule

    audit = Audit.read(folder / "run" / "prepared")
    assert audit is not None
    train = audit.corpora[0]
    assert train.name == "data.train.0: train.tsv"
    assert train.removed == {rule: count for rule, count in PLANTED.items() if count}
    assert [(len(train.examples[rule])) for rule in train.removed] == [min(5, n) for n in train.removed.values()]
    assert train.examples["language"][0].reason.startswith("language fr, probability ")


def test_dry_run_counts_the_same_without_the_rules_on_tokens_and_writes_nothing(folder: Path, tmp_path: Path) -> None:
    before, rejected = snapshot(folder), tmp_path / "rejected.tsv"
    audit = dry_run(recipe_in(folder), QUIET, rejected)
    assert audit.corpora[0].removed == {rule: count for rule, count in PLANTED.items() if count and rule != "too_long"}
    assert audit.not_applied == {"too_long": "it counts tokens, and a dry run makes no tokenizer"}
    found = rejected.read_bytes()
    assert len(found.splitlines()) == sum(PLANTED.values()) - PLANTED["too_long"]
    result = run_command("prepare", "-c", folder / "recipe.yaml", "--dry-run", "--rejected", rejected)
    assert re.search(r"\n +6   0\.7\d%  script: not in the script of its language\n    train.tsv:\d+: ", result.stderr)
    copy = r"    train\.tsv:\d+: identical apart from case\n      Radio Roma (\d)\n      radio roma \1\n"
    assert re.search(rf"  copy: target is the source, or contains it\n(?:    .*\n)*?{copy}", result.stderr)
    assert (snapshot(folder), rejected.read_bytes()) == (before, found)


def test_file_that_is_read_is_not_written(folder: Path) -> None:
    before = snapshot(folder)
    with pytest.raises(ConfigError, match=r"train\.tsv: cannot write it: it is an input of this command"):
        dry_run(recipe_in(folder), QUIET, folder / "train.tsv")
    assert snapshot(folder) == before


def test_length_of_few_pairs_is_not_judged(folder: Path, tmp_path: Path) -> None:
    write_tsv(tmp_path / "few.tsv", TRAIN[:50])
    few = f"data.train.0.file={tmp_path / 'few.tsv'}"
    reasons = dry_run(recipe_in(folder, few), QUIET).not_applied
    assert reasons.pop("length") == "there are too few pairs to learn the usual ratio"
    assert reasons == dry_run(recipe_in(folder, few, "data.filters.keep=[length]"), QUIET).not_applied


def test_tables_of_several_corpora_fit_into_100_columns_with_whole_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    names = [f"data.train.{number}: {'a-long-file-name.' * number}tsv.gz" for number in range(7)]
    places = [f"{name.split()[1]}:7" for name in names]
    corpora = [
        CorpusAudit(name, 100_000_000, Counter(dict.fromkeys(RULES, 654_321)), {"copy": [removed]})
        for name, place in zip(names, places, strict=True)
        for removed in [Removed("copy", place, "found " * 50, "long source " * 50, "长句" * 100)]
    ]
    show_audit(Audit(corpora, [], {}), Console(), with_examples=True)
    lines = capsys.readouterr().err.splitlines()
    assert {*names} <= {*lines}
    assert [line.split(": found")[0].strip() for line in lines if ": found" in line] == places
    assert max(cell_len(line) for line in lines if "a-long-file-name" not in line) <= 100
    for rule in RULES:
        assert sum(line.startswith(f"      654,321   0.65%  {rule}: ") for line in lines) == len(names)
    assert lines.count(f"{100_000_000 - 654_321 * len(RULES):>13,}  pairs kept") == len(names)
