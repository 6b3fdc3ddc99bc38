"""The steps of a preparation: the same bytes in any processes and after interruptions; duplicates, length limits."""

import math
import signal
import subprocess
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.prepare_on_cluster import prepare_with
from nmt.commands.prepare import prepare
from nmt.config import Filters, LanguagePair, MaxLength
from nmt.errors import ConfigError, DataError
from nmt.system.console import Console
from nmt.text import tokenizer
from nmt.text.manifest import PREPARED
from nmt.text.preparing import preparation
from nmt.text.preparing.audit import Audit
from nmt.text.preparing.preparation import filter_block, first_of_each, length_limit, longest_source
from nmt.text.preparing.rules import Rules
from nmt.text.tokenizer import Tokenizer
from tests.builders import demo_pairs, random_lengths, recipe_in, write_recipe, write_tsv

QUIET = Console(quiet=True)


def pairs(count: int, start: int) -> list[tuple[str, str]]:
    """Return pairs of the demonstration text from a line on, with repetitions, a copy and an empty side."""
    rows = demo_pairs(count, start)
    rows[count // 2 : count // 2 + 5] = rows[:5]
    rows[7], rows[count - 3] = ("", "x"), ("the same thing", "the same thing")
    return rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe of two texts, of eight chunks and one."""
    monkeypatch.setattr(preparation, "BLOCK", 40)
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
    """Return the files of a prepared corpus without the settings and times of its manifest, which has digests."""
    files = [path for path in directory.rglob("*") if path.is_file() and path.name not in ("lock", "manifest.json")]
    found = {str(path.relative_to(directory)): path.read_bytes() for path in files}
    found["digests"] = str(PREPARED.read(directory).get("files")).encode()
    return found


def test_duplicates_across_blocks_and_corpora_are_removed(folder: Path) -> None:
    manifest, audit = prepare(recipe_in(folder), QUIET).manifest, Audit.read(folder / "prepared")
    assert [own.removed for own in audit.corpora] == [
        {"empty": 1, "copy": 1, "duplicate": 5},
        {"empty": 1, "copy": 1, "duplicate": 15},
        {"empty": 1},
    ]
    assert ([own.read for own in audit.corpora], manifest.train.corpora) == ([300, 30, 20], (293, 13))
    assert [one.place for one in audit.corpora[0].examples["duplicate"]] == [f"a.tsv:{n}" for n in range(151, 156)]


@given(st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1)))
def test_first_of_each_is_that_of_a_plain_loop(digests: list[int]) -> None:
    first = [digest not in digests[:index] for index, digest in enumerate(digests)]
    assert first_of_each(np.array(digests, dtype=np.uint64)).tolist() == first


def test_pairs_of_different_target_languages_are_no_duplicates() -> None:
    rules = [Rules.learn(Filters(), LanguagePair("en", code)) for code in ("it", "fr", "it")]
    blocks = [filter_block(rules, ["it", "fr", "it"], (corpus, [("yes", "oui", 1)])) for corpus in range(3)]
    digests = [digest for _, _, digest, _ in blocks]
    assert len({*digests}) == 2
    assert digests[0] == digests[2]


def test_other_processes_and_the_executor_of_a_cluster_give_the_same_corpus(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(recipe_in(folder), QUIET)
    expected = contents(folder / "prepared")
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        prepare_with(executor, recipe_in(folder))
    assert contents(folder / "prepared") == expected
    monkeypatch.setattr(preparation, "_SHARED_BYTES", 0)
    monkeypatch.setattr(preparation, "can_fork", lambda: True)
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size: found 9999, but this text yields at most"):
        prepare(recipe_in(folder, "runtime.threads=3", "tokenizer.vocab_size=9999"), QUIET)
    prepare(recipe_in(folder, "runtime.threads=3"), QUIET, force=True)
    assert contents(folder / "prepared") == expected


def test_large_text_is_sampled_for_the_tokenizer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second pair or so, without duplicates, evenly spread."""
    monkeypatch.setattr(tokenizer, "SAMPLED_BYTES", 8_000)
    read, train = list[list[str]](), Tokenizer.train

    def recorded(text: Iterable[str], *rest: Any) -> Tokenizer:
        read.append(list(text))
        return train(read[-1], *rest)

    monkeypatch.setattr(Tokenizer, "train", recorded)
    prepare(recipe_in(folder), QUIET)
    kept = [pair for pair in dict.fromkeys(pairs(300, 0)) if all(pair) and pair[0] != pair[1]]
    sources = read[0][::2]
    assert 6_000 < sum(map(len, read[0])) < 8_000
    places = [index for index, pair in enumerate(kept) if pair[0] in sources]
    assert max(np.diff(places)) <= 2 * len(kept) / len(places) + 2


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("kill_at_call(500, after=(preparation, 'filter_block'), times=3)", ""),
        ("kill_at_call(500, after=(preparation.Text, 'encode'))", ""),
        ("kill_at_call(1, after=(module, 'sync_files'))", ""),
        ("kill_at_call(1, after=(Path, 'replace'), times=3)", ""),
        (
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))",
            "prepared: cannot write it: File too large; name another place",
        ),
    ],
)
def test_preparation_that_ends_early_leaves_the_old_corpus_or_none(
    folder: Path, warm_python: str, fault: str, message: str
) -> None:
    """A limit on the size of files has the same effect as a full disk: a write fails after some bytes."""
    prepare(recipe_in(folder), QUIET)
    before = contents(folder / "prepared")
    write_tsv(folder / "a.tsv", pairs(100, 5000))
    script = (
        "import resource, sys; from pathlib import Path; from nmt.config import load_recipe\n"
        "from nmt.commands import prepare as module; from nmt.system.console import Console\n"
        "from nmt.text.preparing import preparation; from tests.kill_points import kill_at_call\n"
        f"preparation.BLOCK = 40\n{fault}\nmodule.prepare(load_recipe(Path(sys.argv[1])), Console())"
    )
    command = [warm_python, "-c", script, str(folder / "recipe.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if message else -signal.SIGKILL), done.stderr
    assert message in done.stderr
    found = contents(folder / "prepared")
    assert found["digests"] == b"None" or {name: found[name] for name in before} == before
    assert found == before or not message
    write_tsv(folder / "a.tsv", pairs(300, 0))
    prepare(recipe_in(folder), QUIET)
    assert contents(folder / "prepared") == before
    assert [path.name for path in (folder / "prepared").glob(".*")] == []


def test_other_files_in_the_folder_of_a_prepared_corpus_are_kept(folder: Path) -> None:
    prepare(recipe_in(folder), QUIET)
    for name in ("notes.txt", "train/notes.txt"):
        (folder / "prepared" / name).write_text("mine")
    before = contents(folder / "prepared")
    prepare(recipe_in(folder), QUIET, force=True)
    assert contents(folder / "prepared") == before


def test_folder_of_the_user_is_no_place_for_a_prepared_corpus(folder: Path) -> None:
    (folder / "prepared").mkdir()
    (folder / "prepared" / "manifest.json").write_text('{"name": "a web application"}')
    with pytest.raises(DataError, match=r"manifest\.json: damaged, or not written by nmt; .* to another folder"):
        prepare(recipe_in(folder), QUIET, force=True)
    assert (folder / "prepared" / "manifest.json").read_text() == '{"name": "a web application"}'


def limit_of(lengths: list[tuple[int, int]]) -> MaxLength:
    """Return the limit for pairs with the given numbers of source and target tokens."""
    source, target = np.array(lengths).T
    return length_limit(source, target)


def surplus(limit: MaxLength, lengths: list[tuple[int, int]]) -> int:
    """Return the most tokens that a target, with its `</s>`, has beyond the limit; negative if all have fewer."""
    return max(target + 1 - math.ceil(limit.factor * (source + 1)) - limit.extra for source, target in lengths)


@pytest.mark.parametrize(
    ("lengths", "factor", "extra"),
    [
        ([(10, 30), (20, 60)], 3.19, 5),  # with `</s>` T is 31, 61: 2.9 · S + 0.1 is lower than 3 · S; 10 % are added
        ([(10, 30), (20, 40)], 1.1, 22),  # T is S + 20: the mean limit is 36 with 1 and 20, and 41 with 2 and 9
        ([(30, 3), (40, 4)], 1.1, 5),  # the minimum
    ],
)
def test_length_limit_by_hand(lengths: list[tuple[int, int]], factor: float, extra: int) -> None:
    assert limit_of(lengths) == MaxLength(factor=factor, extra=extra)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 120)), min_size=1, max_size=50))
def test_length_limit_of_few_pairs_truncates_none(lengths: list[tuple[int, int]]) -> None:
    assert surplus(limit_of(lengths), lengths) <= 1  # a quantile of few values is slightly below their maximum


@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
def test_length_limit_with_outliers_truncates_no_unseen_pair(ratio: float) -> None:
    """One pair in 5,000 is an outlier."""
    limit = limit_of([*random_lengths(20_000, ratio), (1, 120), (4, 99), (7, 80), (10, 60)])
    assert surplus(limit, random_lengths(20_000, ratio, seed=4)) <= 0
    assert limit.factor < max(1.2, 2.2 * ratio)


@pytest.mark.parametrize(("sentences", "longer"), [(1_000, 5), (300_000, 5), (600_000, 2.5), (3_000_000, 0.5)])
def test_longest_source_is_exceeded_by_one_in_200_sentences_and_by_1500(sentences: int, longer: float) -> None:
    """The sample has sentences of 1, 2, …, 1,000 tokens, each as often."""
    lengths = np.random.default_rng(1).permutation(1_000) + 1
    longest = longest_source(lengths, sentences)
    assert (lengths > longest).sum() == math.floor(longer)


def test_longest_source_of_equal_sentences_is_their_length() -> None:
    assert longest_source(np.full(50, 7), 50) == 7
