"""The stages of a preparation: the same bytes for any number of processes, shards and interruptions. Length limits."""

import math
import random
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.commands.prepare import prepare
from nmt.config import MaxLength
from nmt.errors import ConfigError, DataError
from nmt.system.console import Console
from nmt.text.preparing import chunks, stages
from nmt.text.preparing.stages import length_limit
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
    write_tsv(tmp_path / "a.tsv", pairs(300, 0))
    write_tsv(tmp_path / "b.tsv", [*pairs(20, 1000), *pairs(300, 0)[20:30]])
    write_tsv(tmp_path / "valid.tsv", pairs(20, 2000))
    write_recipe(
        tmp_path,
        data={
            "train": [{"file": "a.tsv"}, {"file": "b.tsv"}],
            "valid": {"file": "valid.tsv"},
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


def test_worker_processes_give_the_same_corpus(
    folder: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "_SHARED_BYTES", 0)
    monkeypatch.setattr(stages, "can_fork", lambda: True)
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size: found 9999, but this text yields at most"):
        prepare(recipe_in(folder, "runtime.threads=3", "tokenizer.vocab_size=9999"), QUIET)
    prepare(recipe_in(folder, "runtime.threads=3"), QUIET)
    assert contents(folder / "prepared") == expected


def run_script(python: str, folder: Path, statements: str) -> "subprocess.CompletedProcess[str]":
    script = (
        "import resource, sys; from pathlib import Path; from nmt.config import load_recipe\n"
        "from nmt.system.console import Console; from nmt.commands.prepare import prepare\n"
        "from nmt.text.preparing import chunks, preparation, stages\n"
        "from tests.kill_points import kill_at_call\n"
        f"chunks.CHUNK_PAIRS = 40\n{statements}\n"
        "prepare(load_recipe(Path(sys.argv[1])), Console())"
    )
    command = [python, "-c", script, str(folder / "recipe.yaml")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "point", ["500, after=(stages, 'filter_chunk'), times=3", "500, after=(preparation, 'join_chunks')"]
)
def test_killed_preparation_begins_again(
    folder: Path, expected: dict[str, bytes], warm_python: str, point: str
) -> None:
    done = run_script(warm_python, folder, f"kill_at_call({point})")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (folder / "prepared" / "tokenizer.model").exists()
    prepare(recipe_in(folder), QUIET)
    assert contents(folder / "prepared") == expected
    assert [path.name for path in (folder / "prepared").glob(".*")] == []


def test_full_disk_leaves_a_clear_error_and_nothing_else(
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
    assert [path.name for path in (folder / "prepared").glob(".*")] == []
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
