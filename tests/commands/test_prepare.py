"""`nmt prepare`: the corpus, its manifest, staleness, interruptions and damaged files."""

import fcntl
import gzip
import os
import resource
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from nmt.commands.prepare import prepare
from nmt.config import Recipe
from nmt.errors import ConfigError, DamagedError, DataError, NMTError
from nmt.system.console import Console
from nmt.system.files import write_digested
from nmt.text.manifest import PREPARED, why_stale
from nmt.text.prepared import PreparedCorpus
from nmt.text.preparing import preparation
from tests.builders import demo_pairs, recipe_in, snapshot, write_recipe, write_tsv

Pairs = list[tuple[str, str]]
QUIET = Console(quiet=True)
TRAIN, VALID, OTHER = demo_pairs(300), demo_pairs(20, 2000), demo_pairs(40, 3000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tsv(tmp_path / "train.tsv", TRAIN)
    write_tsv(tmp_path / "valid.tsv", VALID)
    write_recipe(
        tmp_path, data={"train": [{"file": "train.tsv"}], "valid": {"file": "valid.tsv"}}, tokenizer={"vocab_size": 340}
    )
    return tmp_path


def test_corpus_contains_the_text_and_its_counts(folder: Path) -> None:
    train = [*TRAIN, ("tre ☃ omini", "three ☃☃ men")]
    write_tsv(folder / "train.tsv", train)
    corpus = prepare(recipe_in(folder), QUIET)
    tokenizer, manifest = corpus.tokenizers.source, corpus.manifest
    with_piece = {*"".join(tokenizer.pieces), " "}
    assert corpus.tokenizers.shared
    for split, counts, rows in ((corpus.train, manifest.train, train), (corpus.valid, manifest.valid, VALID)):
        for side, lines in zip(("source", "target"), zip(*rows, strict=True), strict=True):
            stored, found = getattr(split, side).split(), getattr(counts, side)
            assert stored == list(map(tokenizer.encode, lines))
            assert list(map(tokenizer.decode, stored)) == list(lines)
            assert (found.tokens, found.characters) == (sum(map(len, stored)), sum(map(len, lines)))
            assert found.spelled == sum(character not in with_piece for line in lines for character in line)
    assert corpus.valid_texts == [tuple(map(list, zip(*VALID, strict=True)))]


def test_corpora_with_weight_tag_columns_and_gzip_are_combined(folder: Path) -> None:
    """Changed weights, and tags that are known, need no new preparation."""
    (folder / "back.tsv.gz").write_bytes(gzip.compress("".join(f"x\t{t}\t{s}\n" for s, t in OTHER).encode()))
    (folder / "a.en").write_text("first sentence\nsecond sentence\n")
    (folder / "a.it").write_text("prima frase\nseconda frase\n")
    content = yaml.safe_load((folder / "recipe.yaml").read_text())
    back = {"file": "back.tsv.gz", "columns": [3, 2], "oversample": 0.5, "tag": "back"}
    content["data"]["train"] += [back, {"source": "a.en", "target": "a.it"}]
    (folder / "recipe.yaml").write_text(yaml.safe_dump(content))
    stamps = set()
    for changes, weights, tagged in (
        ((), (1.0, 0.5), (False, True)),
        (("data.train.0.oversample=2.5", "data.train.0.tag=back", "data.train.1.tag=null"), (2.5, 0.5), (True, False)),
    ):
        corpus = prepare(recipe_in(folder, *changes), QUIET)
        stamps.add(stamp(folder / "run" / "prepared"))
        tokenizer = corpus.tokenizers.source
        assert corpus.train.weights(np.arange(342)).tolist() == [weights[0]] * 300 + [weights[1]] * 40 + [1.0] * 2
        assert tokenizer.decode(corpus.train.source.split()[300]) == OTHER[0][0]
        assert tokenizer.decode(corpus.train.source.split()[-1]) == "second sentence"
        sources, tag = corpus.train.gather(np.arange(342))[0].split(), tokenizer.tag_ids(["back"])[0]
        prefixed = [tagged[0]] * 300 + [tagged[1]] * 40 + [False] * 2
        assert sources == [[tag] * own + ids for own, ids in zip(prefixed, corpus.train.source.split(), strict=True)]
    assert len(stamps) == 1


def test_corpus_is_current_by_size_time_and_start_of_its_files_in_any_folder(folder: Path, tmp_path: Path) -> None:
    first = prepare(recipe_in(folder), QUIET)
    shutil.copytree(folder, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("elsewhere"))  # with their times
    other = tmp_path / "elsewhere"
    assert why_stale(recipe_in(other)) is None
    (other / "train.tsv").rename(other / "gone")
    assert why_stale(recipe_in(other)) is None  # as far as one can know
    (other / "gone").rename(other / "train.tsv")
    os.utime(other / "train.tsv", (1, 1))
    assert "train.tsv has changed" in str(why_stale(recipe_in(other)))
    assert prepare(recipe_in(other), QUIET).manifest.fingerprint == first.manifest.fingerprint  # runs can be resumed
    status, content = (other / "train.tsv").stat(), (other / "train.tsv").read_bytes()
    (other / "train.tsv").write_bytes(b"".join(reversed(content.splitlines(keepends=True))))
    os.utime(other / "train.tsv", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "train.tsv has changed" in str(why_stale(recipe_in(other)))  # with the same size and time
    write_tsv(other / "train.tsv", demo_pairs(300, 4000))
    assert prepare(recipe_in(other), QUIET).manifest.fingerprint != first.manifest.fingerprint


def stamp(directory: Path) -> tuple[int, int]:
    status = (directory / "manifest.json").stat()
    return status.st_ino, status.st_mtime_ns  # a new file may have the number of a removed one


def test_current_corpus_is_not_prepared_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(recipe_in(folder), QUIET)
    before = stamp(folder / "run" / "prepared")
    unrelated = ("model.dim=64", "train.batch_tokens=100", "seed=5", "decode.beam=1", "runtime.threads=1")
    assert why_stale(recipe_in(folder, *unrelated)) is None
    prepare(recipe_in(folder, *unrelated), Console())
    assert "the prepared corpus is current" in capsys.readouterr().err
    assert stamp(folder / "run" / "prepared") == before
    prepare(recipe_in(folder), QUIET, force=True)
    assert stamp(folder / "run" / "prepared") != before


def test_words_need_spaces(folder: Path) -> None:
    changes = ("tokenizer={type: word, min_frequency: 2}", "data.valid=null", "data.filters.keep=[language, script]")
    tokenizer = prepare(recipe_in(folder, *changes), QUIET).tokenizers.source
    assert tokenizer.has_words_only
    with pytest.raises(ConfigError, match=r"tokenizer\.type: zh has no spaces between words; use unigram, bpe or char"):
        prepare(recipe_in(folder, *changes, "languages.target=zh"), QUIET)


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("tokenizer.vocab_size=341", "tokenizer.vocab_size: was 340, now 341"),
        ("data.filters.max_tokens=9", "data.filters.max_tokens: was 256, now 9"),
        ("data.train.0.tag=x", 'tags: was [], now ["x"]'),
        ("data.train.0.columns=[2, 1]", "data.train.0.columns: was [1, 2], now [2, 1]"),
        ("languages.target=fr", 'languages.target: was "it", now "fr"'),
        ("data.valid=null", "data.valid"),
        ("data.train.0.file=other.tsv", 'data.train.0.file: was "train.tsv", now "other.tsv"'),
    ],
)
def test_why_stale_names_the_changed_settings_and_texts(folder: Path, override: str, reason: str) -> None:
    assert why_stale(recipe_in(folder)) == "there is none yet"
    prepare(recipe_in(folder), QUIET)
    assert why_stale(recipe_in(folder)) is None
    assert reason in str(why_stale(recipe_in(folder, override)))


def test_damaged_corpus_is_prepared_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = prepare(recipe_in(folder), QUIET).train.source.split()[-1]
    tokens = folder / "run" / "prepared" / "train" / "source.tokens.npy"
    reason = "damaged: its content is not what was prepared"
    for content in (b"", b"\5\0"):
        tokens.write_bytes(content and tokens.read_bytes()[: -len(content)] + content)
        assert prepare(recipe_in(folder), Console()).train.source.split()[-1] == last
        assert f"(run/prepared/train/source.tokens.npy: {reason}" in capsys.readouterr().err.replace(f"{folder}/", "")


@pytest.mark.parametrize("force", [False, True])
def test_damaged_manifest_is_named_with_what_to_do(folder: Path, force: bool) -> None:
    prepare(recipe_in(folder), QUIET)
    file = folder / "run" / "prepared" / "manifest.json"
    for content in (b"", file.read_bytes()[:400], file.read_bytes().replace(b"nmt prep", b"nmt qrep")):
        file.write_bytes(content)
        with pytest.raises(NMTError, match=r"manifest\.json: damaged, or not written by nmt.*(remove it|or write)"):
            prepare(recipe_in(folder), QUIET, force)


def test_full_disk_is_named_by_the_folder(folder: Path) -> None:
    """The lock is the first file that is written there."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
        with pytest.raises(DataError, match=r"run/prepared: cannot write it: File too large"):
            prepare(recipe_in(folder), QUIET)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


@pytest.mark.parametrize(
    ("train", "valid", "override", "message"),
    [
        ([("", "x"), ("a", "a")], VALID, "", r": 2 pairs read, none kept: empty \(.*\): 1; copy \(.*\): 1; see "),
        (TRAIN, VALID, "data.filters.max_tokens=1", r"none kept: too_long \(a side longer than max_tokens\): 300"),
        (TRAIN, TRAIN, "", r"leak \(.*\): \d+; data\.valid and data\.test contain these sentences"),
        ([], VALID, "", r"train\.tsv: no sentence pairs in it; expected one pair per line"),
        (TRAIN, [("", "x"), ("y", "")], "", r"valid\.tsv: 2 pairs read, none kept: empty"),
        ([*TRAIN, ("no tab\nx", "y")], VALID, "", r"train\.tsv:301: found 1 column"),
        (TRAIN, VALID, "data.valid.file=gone.tsv", r"^data\.valid\.file: .*gone\.tsv: no such file"),
    ],
)
def test_unusable_text_is_refused_with_its_place_and_leaves_no_corpus(
    folder: Path, monkeypatch: pytest.MonkeyPatch, train: Pairs, valid: Pairs, override: str, message: str
) -> None:
    if "max_tokens" not in override:
        monkeypatch.setattr(preparation, "train_tokenizers", lambda *_: pytest.fail("a tokenizer was trained"))
    write_tsv(folder / "train.tsv", train)
    write_tsv(folder / "valid.tsv", valid)
    with pytest.raises(DataError, match=message):
        prepare(recipe_in(folder, *filter(None, [override])), QUIET)
    assert {path.name for path in (folder / "run").rglob("*")} <= {"prepared", "lock"}
    with pytest.raises(DataError, match="no prepared corpus here; make it with nmt prepare"):
        PreparedCorpus.open(folder / "run" / "prepared")


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_automatic_vocabulary_suits_a_text_that_is_too_small_for_a_fixed_one(folder: Path, kind: str) -> None:
    overrides = ("tokenizer.vocab_size=auto", f"tokenizer.type={kind}")
    write_tsv(folder / "train.tsv", [("a b c", "d e f"), ("a c b", "d f e")])
    corpus = prepare(recipe_in(folder, *overrides), QUIET)
    assert 256 < len(corpus.tokenizers.source) < 290
    assert corpus.manifest.settings["tokenizer"]["vocab_size"] == "auto"
    assert why_stale(recipe_in(folder, *overrides)) is None
    assert 'was "auto", now 300' in str(why_stale(recipe_in(folder, *overrides, "tokenizer.vocab_size=300")))


def test_prepare_waits_for_the_process_that_holds_the_lock(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = folder / "run" / "prepared"
    directory.mkdir(parents=True)
    with (directory / "lock").open("w") as held:
        held.write("process 1 on elsewhere")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = threading.Thread(target=prepare, args=[recipe_in(folder), Console()])
        waiting.start()
        shown = ""  # the line can come in parts
        while "waiting for process 1 on elsewhere" not in shown:
            assert waiting.is_alive()
            time.sleep(0.01)
            shown += capsys.readouterr().err
        assert [path.name for path in directory.iterdir()] == ["lock"]
    waiting.join()
    assert len(PreparedCorpus.open(directory).train) == 300


def test_changed_test_text_renews_the_corpus(folder: Path) -> None:
    """Its sentences are removed from the training text, as source or target, also if nothing else changed."""
    test = folder / "test.tsv"
    chosen = recipe_in(folder, f"data.test.file={test}")
    for held_out, kept in ((OTHER[:10], 300), (TRAIN[:4], 296), ([TRAIN[7][::-1]], 299)):
        write_tsv(test, held_out)
        assert why_stale(chosen) is not None
        assert prepare(chosen, QUIET).manifest.train.kept == kept
        assert why_stale(chosen) is None


def test_links_in_the_folder_of_the_corpus_are_replaced_and_never_followed(folder: Path) -> None:
    """The folder may come from others."""
    prepare(recipe_in(folder), QUIET)
    prepared, other = recipe_in(folder).prepared_directory, folder / "other"
    shutil.rmtree(prepared / "valid")
    shutil.move(prepared / "train", other)
    (other / "manifest.json").write_text("{}")
    before = snapshot(other)
    (prepared / "train").symlink_to(other)
    (prepared / "valid").symlink_to(other)
    (prepared / "manifest.json").unlink()
    (prepared / "manifest.json").symlink_to(other / "manifest.json")
    with pytest.raises(DamagedError, match=r"manifest\.json is a symbolic link"):
        prepare(recipe_in(folder), QUIET)
    (prepared / "manifest.json").unlink()
    PREPARED.write(prepared)
    prepare(recipe_in(folder), QUIET)
    assert snapshot(other) == before
    assert not (prepared / "train").is_symlink()


# fine-tuning: the tokenizer comes with the model


def start(folder: Path, *overrides: str) -> Path:
    """Return a model directory without weights, whose tokenizer was trained on other text."""
    base = folder / "base"
    write_tsv(folder / "base.tsv", demo_pairs(300, 5000))
    text = f"data.train=[{{file: {folder / 'base.tsv'}, tag: back}}]"
    corpus = prepare(recipe_in(folder, f"run={base}", text, *overrides), QUIET)
    files = corpus.tokenizers.save(base)
    write_digested(base / "config.json", 1, {"model": {"tied_embeddings": "none"}}, files)
    return base


def tuned(folder: Path, *overrides: str) -> Recipe:
    return recipe_in(folder, "tokenizer={}", f"train.init_from={folder / 'base'}", *overrides)


@pytest.mark.parametrize("shared", ["true", "false"])
def test_tokenizer_of_the_initial_model_is_used(folder: Path, shared: str) -> None:
    base = start(folder, f"tokenizer.shared={shared}", "model.tied_embeddings=none")
    if shared == "false":
        (base / "tokenizer.model").write_text("not in the list of the model")
    corpus = prepare(tuned(folder), QUIET)
    assert corpus.tokenizers.shared == (shared == "true")
    for side, lines in zip(("source", "target"), zip(*TRAIN, strict=True), strict=True):
        file, tokenizer = base / f"tokenizer.{side}.model", getattr(corpus.tokenizers, side)
        if shared == "true":
            file = base / "tokenizer.model"
        assert tokenizer.to_bytes() == file.read_bytes()
        assert tuple(map(tokenizer.decode, getattr(corpus.train, side).split())) == lines
    assert (corpus.tokenizers.source.pieces == corpus.tokenizers.target.pieces) == (shared == "true")
    assert why_stale(tuned(folder)) is None


def test_recipe_that_does_not_fit_the_initial_tokenizer_is_refused(folder: Path) -> None:
    start(folder)
    tagged = "data.train.0.tag={}".format
    prepare(tuned(folder, tagged("back")), QUIET)
    with pytest.raises(ConfigError, match=r"tokenizer: it comes with train\.init_from .*; leave this section"):
        prepare(tuned(folder, "tokenizer.vocab_size=4000"), QUIET)
    with pytest.raises(
        ConfigError, match=r"train\.init_from \(.*base\): the tokenizer has no tag 'news'; .*; its tags are back"
    ):
        prepare(tuned(folder, tagged("news")), QUIET)


def test_initial_tokenizer_without_the_characters_of_the_text_is_warned_about(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(folder)
    prepare(tuned(folder), Console())
    assert "has no piece" not in capsys.readouterr().err
    write_tsv(folder / "train.tsv", [(source, "猫睡觉猫a") for source, _ in TRAIN])
    prepare(tuned(folder, "languages.target=zh", "data.valid=null"), Console())
    printed = capsys.readouterr().err
    assert "warning: train.init_from: its tokenizer has no piece for 80.0% of the characters of the target" in printed
