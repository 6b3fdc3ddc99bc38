"""The stages of a preparation: the same bytes for any number of processes, shards and interruptions. Length limits."""

import math
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.commands.prepare import prepare, prepare_shard
from nmt.config import MaxLength
from nmt.errors import ConfigError, DataError
from nmt.system.console import Console
from nmt.text.preparing import chunks, preparation, stages, work_directory
from nmt.text.preparing.stages import Shard, length_limit
from tests.builders import recipe_in, write_recipe, write_tsv

QUIET = Console(quiet=True)


def pairs(count: int, start: int) -> list[tuple[str, str]]:
    """Return pairs of the demonstration text from a line on, with repetitions, a copy and an empty side."""
    lines = (Path(__file__).parents[3] / "data" / "demo" / "train.tsv").read_text(encoding="utf-8").splitlines()
    rows = [(columns[0], columns[1]) for columns in (line.split("\t") for line in lines[start : start + count])]
    rows[count // 2 : count // 2 + 5] = rows[:5]
    rows[7], rows[count - 3] = ("", "x"), ("the same thing", "the same thing")
    return rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe of two texts, of eight chunks and one."""
    monkeypatch.setattr(chunks, "CHUNK_PAIRS", 40)
    monkeypatch.setattr(work_directory, "CHUNK_PAIRS", 40)
    write_tsv(tmp_path / "a.tsv", pairs(300, 0))
    write_tsv(tmp_path / "b.tsv", [*pairs(20, 1000), *pairs(300, 0)[20:30]])
    write_tsv(tmp_path / "valid.tsv", pairs(20, 2000))
    write_recipe(
        tmp_path,
        data={
            "train": [{"tsv": "a.tsv"}, {"tsv": "b.tsv"}],
            "valid": {"tsv": "valid.tsv"},
            "filters": {"keep": ["leak"]},
        },
        tokenizer={"vocab_size": 340},
        runtime={"threads": 1},
        prepared="prepared",
    )
    return tmp_path


def contents(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.fixture
def expected(folder: Path) -> dict[str, bytes]:
    """The files of an uninterrupted preparation in one process."""
    prepare(recipe_in(folder, f"prepared={folder / 'expected'}"), QUIET)
    return contents(folder / "expected")


def test_duplicates_across_chunks_and_corpora_are_removed(folder: Path) -> None:
    counts = prepare(recipe_in(folder), QUIET).manifest.train
    assert {rule: count for rule, count in counts.refused.items() if count} == {"empty": 2, "copy": 2, "duplicate": 20}
    assert (counts.read, counts.corpora) == (330, (293, 13))


def test_pairs_with_the_same_source_or_target_are_limited(folder: Path) -> None:
    """Exact repetitions do not count for the limit of sources, nor pairs beyond that limit for the one of targets."""
    rows = pairs(300, 0)[8:50]
    (source, target), other = rows[0], rows[1][1]
    rows += [(source, target), (source, other), (source, rows[2][1]), (rows[3][0], rows[2][1]), (rows[4][0], other)]
    write_tsv(folder / "a.tsv", rows)
    write_tsv(folder / "b.tsv", [(source, rows[5][1]), *pairs(20, 1000)[8:15]])
    found = contents_and_counts(folder, [])
    limits = ["data.filters.max_same_source=2", "data.filters.max_same_target=2"]
    kept, removed = contents_and_counts(folder, limits)
    seen: tuple[set[tuple[str, str]], Counter[str], Counter[str]] = set(), Counter(), Counter()
    expected = []
    for pair in [*rows, (source, rows[5][1]), *pairs(20, 1000)[8:15]]:
        if pair in seen[0]:
            continue
        seen[0].add(pair)
        seen[1][pair[0]] += 1
        if seen[1][pair[0]] > 2:
            continue
        seen[2][pair[1]] += 1
        if seen[2][pair[1]] <= 2:
            expected.append(pair)
    assert kept == expected
    assert (removed["duplicate"], removed["same_source"], removed["same_target"]) == (1, 2, 1)
    assert len(found[0]) == len(kept) + 3


def contents_and_counts(folder: Path, overrides: list[str]) -> tuple[list[tuple[str, str]], dict[str, int]]:
    corpus = prepare(recipe_in(folder, "data.filters.keep=[leak,mismatch,length]", *overrides), QUIET)
    decode = corpus.tokenizers.source.decode
    found = zip(map(decode, corpus.train.source), map(decode, corpus.train.target), strict=True)
    return list(found), corpus.manifest.train.refused


def test_worker_processes_give_the_same_corpus(
    folder: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "_SHARED_BYTES", 0)
    monkeypatch.setattr(stages, "can_fork", lambda: True)
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size: found 9999, but this text yields at most"):
        prepare(recipe_in(folder, "runtime.threads=3", "tokenizer.vocab_size=9999"), QUIET)
    prepare(recipe_in(folder, "runtime.threads=3"), QUIET)
    assert contents(folder / "prepared") == expected


def test_shards_give_the_same_corpus(
    folder: Path, expected: dict[str, bytes], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def shard(number: int) -> str:
        prepare_shard(recipe_in(folder), Console(), Shard(number, 3))
        return capsys.readouterr().err

    assert "shard 1/3 is filtered; when all are, the same command encodes it" in shard(1)
    assert "shard 2/3 is filtered" in shard(2)
    assert "shard 3/3 is encoded; when all are, nmt prepare without --shard writes" in shard(3)
    assert not (folder / "prepared" / "tokenizer.model").exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "raw_chunks", lambda *_: pytest.fail("the text was read again"))
        assert "shard 1/3 is encoded" in shard(1)
        assert "shard 2/3 is encoded" in shard(2)
    done = {path: path.stat().st_mtime_ns for path in (folder / "prepared" / ".work" / "train").glob("*.safetensors")}
    assert len(done) == 2 * 9
    monkeypatch.setattr(stages, "train_tokenizers", lambda *_: pytest.fail("trained again"))
    with pytest.MonkeyPatch.context() as patch:
        joined = preparation.join_chunks

        def join(*arguments: Any) -> Any:
            unchanged = {path: path.stat().st_mtime_ns for path in done}
            assert unchanged == done
            return joined(*arguments)

        patch.setattr(preparation, "join_chunks", join)
        prepare(recipe_in(folder), QUIET)
    assert contents(folder / "prepared") == expected
    assert not (folder / "prepared" / ".work").exists()
    assert "the prepared corpus is current" in shard(1)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/3/2", "a/b", "-1/3", "1/0"])
def test_shards_that_do_not_exist_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--shard: found {text}, expected I/N, such as 2/8"):
        Shard.parse(text)
    assert Shard.parse("2/8") == Shard(2, 8)


def run_script(python: str, folder: Path, statements: str) -> "subprocess.CompletedProcess[str]":
    script = (
        "import resource, sys; from pathlib import Path; from nmt.config import load_recipe\n"
        "from nmt.system.console import Console; from nmt.commands.prepare import prepare\n"
        "from nmt.text.preparing import chunks, preparation, stages, work_directory\n"
        "from tests.kill_points import kill_at_call\n"
        f"chunks.CHUNK_PAIRS = work_directory.CHUNK_PAIRS = 40\n{statements}\n"
        "prepare(load_recipe(Path(sys.argv[1])), Console())"
    )
    command = [python, "-c", script, str(folder / "recipe.yaml")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("point", "filtered", "encoded"),
    [
        ("500, after=(stages, 'filter_chunk'), times=3", 2, 0),
        pytest.param("20, after=(stages, 'find_repeated')", 9, 0, marks=pytest.mark.slow),
        ("300, after=(stages, 'train_tokenizers')", 9, 0),
        ("100, after=(stages, 'encode_chunk'), times=5", 9, 4),
        ("500, after=(preparation, 'join_chunks')", 9, 9),
        pytest.param("100, after=(preparation, 'validation_text')", 9, 0, marks=pytest.mark.slow),
    ],
)
def test_killed_preparation_continues(
    folder: Path, expected: dict[str, bytes], warm_python: str, point: str, filtered: int, encoded: int
) -> None:
    done = run_script(warm_python, folder, f"kill_at_call({point})")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (folder / "prepared" / "tokenizer.model").exists()
    work = folder / "prepared" / ".work" / "train"
    assert len(list(work.glob("??????.kept.safetensors"))) == filtered
    assert len(list(work.glob("??????.encoded.safetensors"))) == encoded
    before = {path: path.stat().st_ino for path in work.glob("??????.*.safetensors")}
    repeated: list[int] = []
    joined = preparation.join_chunks

    def join(text: Any, *arguments: Any) -> Any:
        repeated.extend(path.stat().st_ino != inode for path, inode in before.items())
        return joined(text, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparation, "join_chunks", join)
        prepare(recipe_in(folder), QUIET)
    assert contents(folder / "prepared") == expected
    assert not any(repeated)
    assert [path.name for path in (folder / "prepared").glob(".*")] == []


def test_interrupted_preparation_is_announced_and_other_texts_start_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "train_tokenizers", interrupt)
        with pytest.raises(KeyboardInterrupt):
            prepare(recipe_in(folder), Console())
    assert "prepared/.work keeps what is finished; the same command continues" in capsys.readouterr().err
    write_tsv(folder / "a.tsv", pairs(100, 5000))
    assert prepare(recipe_in(folder), QUIET).manifest.train.read == 130


def test_damaged_chunk_is_done_again(folder: Path, expected: dict[str, bytes]) -> None:
    prepare_shard(recipe_in(folder), QUIET, Shard(1, 1))
    work = folder / "prepared" / ".work" / "train"
    (work / "000003.kept.safetensors").write_bytes((work / "000003.kept.safetensors").read_bytes()[:-100])
    (work / "000004.encoded.safetensors").write_bytes(b"")
    prepare(recipe_in(folder), QUIET)
    assert contents(folder / "prepared") == expected


def test_full_disk_leaves_a_clear_error_and_the_work_continues(
    folder: Path, expected: dict[str, bytes], warm_python: str
) -> None:
    """A limit on the size of files has the same effect as a full disk: a write fails after some bytes."""
    limit = (
        "join = preparation.join_chunks\n"
        "def limited(*arguments):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        "    return join(*arguments)\n"
        "preparation.join_chunks = limited"
    )
    done = run_script(warm_python, folder, limit)
    assert done.returncode == 1
    assert "prepared: cannot write it: File too large; name another place" in done.stderr
    assert "keeps what is finished; the same command continues" in done.stderr
    assert not (folder / "prepared" / "tokenizer.model").exists()
    prepare(recipe_in(folder), QUIET)
    assert contents(folder / "prepared") == expected


def test_unusable_validation_text_is_found_before_the_tokenizer_is_trained(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tsv(folder / "valid.tsv", [("", "x"), ("y", "")])
    monkeypatch.setattr(stages, "train_tokenizers", lambda *_: pytest.fail("a tokenizer was trained"))
    with pytest.raises(DataError, match=r"valid\.tsv: 2 pairs read, none kept\. empty"):
        prepare(recipe_in(folder), QUIET)


def test_other_files_in_the_folder_of_a_prepared_corpus_are_kept(folder: Path, expected: dict[str, bytes]) -> None:
    prepare(recipe_in(folder), QUIET)
    (folder / "prepared" / "notes.txt").write_text("mine")
    (folder / "prepared" / "train" / "notes.txt").write_text("mine")
    prepare(recipe_in(folder), QUIET, force=True)
    found = contents(folder / "prepared")
    assert [found.pop(name) for name in ("notes.txt", "train/notes.txt")] == [b"mine"] * 2
    assert found == expected


def test_folder_of_the_user_is_no_place_for_a_prepared_corpus(folder: Path) -> None:
    (folder / "prepared").mkdir()
    (folder / "prepared" / "manifest.json").write_text('{"name": "a web application"}')
    with pytest.raises(ConfigError, match=r"prepared: expected a new or an empty folder, .* holds manifest\.json"):
        prepare(recipe_in(folder), QUIET, force=True)
    assert contents(folder / "prepared") == {"manifest.json": b'{"name": "a web application"}'}


@pytest.mark.parametrize("after", ["settle", "_move_corpus"])
def test_kill_while_a_corpus_is_replaced_leaves_the_old_one_or_none(
    folder: Path, expected: dict[str, bytes], warm_python: str, after: str
) -> None:
    """Until the first file is moved, the old corpus is whole; later, the next preparation makes a new one."""
    prepare(recipe_in(folder), QUIET)
    before = contents(folder / "prepared")
    write_tsv(folder / "a.tsv", pairs(100, 5000))
    kill = "import os; from nmt.commands import prepare as module\nkill = lambda *_, **__: os.kill(os.getpid(), 9)\n"
    if after == "settle":
        kill += "module.settle = kill"
    else:  # while the files of the old corpus are removed
        kill += "move = module._move_corpus\n"
        kill += "def moved(*given):\n    Path.unlink = kill\n    move(*given)\n"
        kill += "module._move_corpus = moved"
    assert run_script(warm_python, folder, kill).returncode == -signal.SIGKILL
    found = contents(folder / "prepared")
    if after == "settle":
        assert {name: found[name] for name in before} == before
    write_tsv(folder / "a.tsv", pairs(300, 0))
    prepare(recipe_in(folder), QUIET, force=after == "settle")
    again = contents(folder / "prepared")
    del again["inputs.json"], expected["inputs.json"]  # with the times of the files
    assert again == expected


def test_variants_of_chinese_are_learned_with_the_tag_of_their_language(tmp_path: Path) -> None:
    lines = (Path(__file__).parents[3] / "data" / "demo" / "train.tsv").read_text(encoding="utf-8").splitlines()
    rows = [(columns[0], columns[2]) for columns in (line.split("\t") for line in lines[:200])]
    simplified, traditional = ("This country.", "这个国家的语言"), ("That country.", "這個國家的語言")
    both, mixed = ("Good morning.", "早上好"), ("A mixture.", "这个國家的语言很难學")
    write_tsv(tmp_path / "mixed.tsv", [*rows, simplified, traditional, both, mixed])
    write_tsv(tmp_path / "valid.tsv", [("One year.", "三个国家"), ("A year.", "三個國家"), ("Early.", "早")])
    texts = {
        name: [{"tsv": f"{name}.tsv", "target_language": code} for code in ("zh-Hans", "zh-Hant")]
        for name in ("mixed", "valid")
    }
    write_recipe(
        tmp_path,
        languages={"source": "en", "target": ["zh-Hans", "zh-Hant"]},
        data={"train": texts["mixed"], "valid": texts["valid"], "filters": {"han_variants": "tag"}},
    )
    corpus = prepare(recipe_in(tmp_path), QUIET)

    sources, targets = corpus.train.gather(np.arange(len(corpus.train)))
    source, target = corpus.tokenizers.source, corpus.tokenizers.target
    tags = {source.tag_id(f"2{code}"): code for code in ("zh-Hans", "zh-Hant")}
    read = [(tags[ids[0]], source.decode(ids[1:])) for ids in sources.split()]
    own = {name: [code for code, text in read if text == name] for name in ("This country.", "That country.")}
    assert own == {"This country.": ["zh-Hans"], "That country.": ["zh-Hant"]}
    assert [code for code, text in read if text == "Good morning."] == ["zh-Hans", "zh-Hant"]
    assert not [text for _, text in read if text == "A mixture."]
    assert target.decode(targets.split()[read.index(("zh-Hant", "That country."))]) == "這個國家的語言"
    assert [references for _, references in corpus.valid_texts] == [["三个国家", "早"], ["三個國家", "早"]]
    counted = corpus.manifest.train
    assert (counted.refused["han"], counted.refused["duplicate"]) == (1, 0)


def test_tag_needs_languages_that_state_the_variant(folder: Path) -> None:
    settings = ["data.filters.han_variants=tag", "languages.target=zh", "data.accept_any_language=true"]
    message = r"tag needs target languages that state the variant, found zh: set `languages.target` to \[zh-Hans, zh-H"
    with pytest.raises(ConfigError, match=message):
        prepare(recipe_in(folder, *settings), QUIET)


@pytest.mark.parametrize(("name", "size"), [("a.tsv", 100), ("a.tsv.gz", 300), ("A.TSV.XZ", 300), ("a.zip", 300)])
def test_size_of_a_text_is_estimated_from_its_file(tmp_path: Path, name: str, size: int) -> None:
    (tmp_path / name).write_bytes(bytes(100))
    assert stages._text_size(tmp_path / name) == size


def limit_of(lengths: list[tuple[int, int]]) -> MaxLength:
    """Return the limit for pairs with the given numbers of source and target tokens."""
    source, target = np.array(lengths).T
    return length_limit(source, target)


def longest_output(limit: MaxLength, source: int) -> int:
    return math.ceil(limit.factor * source) + limit.extra


def test_length_limit_of_triple_length_targets_by_hand() -> None:
    """With `</s>` S is 11 or 21 and T is 31 or 61: the bound 2.9 · S + 0.1 is lower than 3 · S; 10 % are added."""
    assert limit_of([(10, 30), (20, 60)]) == MaxLength(factor=3.19, extra=5)


def test_length_limit_minimizes_the_mean_by_hand() -> None:
    """T is S + 20: the mean limit is 36 with factor 1 and extra 20, and 41 with 2 and 9; 10 % are added: 22."""
    assert limit_of([(10, 30), (20, 40)]) == MaxLength(factor=1.1, extra=22)


def test_length_limit_has_a_minimum() -> None:
    assert limit_of([(30, 3), (40, 4)]) == MaxLength(factor=1.1, extra=5)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 120)), min_size=1, max_size=50))
def test_length_limit_of_few_pairs_truncates_none(lengths: list[tuple[int, int]]) -> None:
    limit = limit_of(lengths)
    for source, target in lengths:
        # a quantile of few values is slightly below their maximum
        assert target + 1 <= longest_output(limit, source + 1) + 1


@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
def test_length_limit_with_outliers_truncates_no_unseen_pair(ratio: float) -> None:
    """Target lengths vary as sums of independent word lengths; one pair in 5,000 is an outlier."""
    generator = random.Random(1)

    def pair() -> tuple[int, int]:
        source = max(1, round(generator.lognormvariate(2.5, 0.6)))
        return source, max(1, round(generator.gauss(ratio * source, 0.6 * math.sqrt(ratio * source))))

    outliers = [(generator.randint(1, 10), generator.randint(60, 120)) for _ in range(4)]
    limit = limit_of([*(pair() for _ in range(20_000)), *outliers])
    assert (
        sum(target + 1 > longest_output(limit, source + 1) for source, target in (pair() for _ in range(20_000))) == 0
    )
    assert limit.factor < max(1.2, 2.2 * ratio)
