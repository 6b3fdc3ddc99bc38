"""`batch_tokens: auto`: what it finds fits, what is larger does not, and a run keeps to it."""

import resource
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
import torch
import yaml

from nmt.batching.batch import Batch
from nmt.batching.batch_stream import BatchStream
from nmt.batching.plan import SentenceLengths
from nmt.commands.prepare import prepare
from nmt.config import Recipe, load_recipe
from nmt.errors import ConfigError
from nmt.system.console import Console
from nmt.text.prepared import PreparedCorpus
from nmt.training import auto_batch
from nmt.training.auto_batch import (
    Trial,
    find_batch_tokens,
    free_memory,
    peak_memory,
    settle_batch_tokens,
    used_memory,
    with_batch_tokens,
    worst_batches,
)
from nmt.training.oom import size_of
from nmt.training.run import RunDirectory

CPU = torch.device("cpu")
QUIET = Console(quiet=True)
MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Recipe:
    folder = tmp_path_factory.mktemp("budget")
    rows = (repository / "data" / "demo" / "train.tsv").read_text(encoding="utf-8").splitlines()[:1500]
    # a few pairs are long, a few lopsided
    rows = [row.split("\t")[:2] for row in rows]
    rows += [[" ".join(source for source, _ in rows[i : i + 8]), rows[i][1]] for i in range(0, 80, 8)]
    (folder / "train.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    content = {
        "name": "budget",
        "languages": {"source": "en", "target": "it"},
        "data": {"train": [{"tsv": "train.tsv"}]},
        "tokenizer": {"vocab_size": 600},
        "model": {"encoder_layers": 2, "decoder_layers": 2, "dim": 32, "feed_forward": 128, "heads": 2},
        "train": {"batch_tokens": "auto", "stop": {"steps": 2}},
        "runtime": {"device": "cpu", "threads": 1},
        "run": "run",
        "prepared": "prepared",
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(content))
    chosen = load_recipe(folder / "recipe.yaml")
    prepare(chosen, QUIET)
    return chosen


@pytest.fixture(scope="module")
def corpus(recipe: Recipe) -> PreparedCorpus:
    return PreparedCorpus.open(recipe.prepared_directory)


class LinearTrial(Trial):
    """Needs `base` bytes and `each` for a token."""

    base, each = 1000, 7

    def peak(self, size: int) -> dict[str, int]:
        return {"memory": self.base + self.each * size, "address space": 3 * self.each * size}


def test_the_line_is_solved(recipe: Recipe, corpus: PreparedCorpus) -> None:
    trial = LinearTrial(recipe, corpus, CPU)
    assert trial.largest({"memory": 1000 + 7 * 12_345}, 10**6) == 12_345
    assert trial.largest({"memory": 1000 + 7 * 12_345, "address space": 21 * 5_000}, 10**6) == 5_000
    sampling = recipe.train.model_copy(update={"subword_sampling": 0.2})
    trial.recipe = recipe.model_copy(update={"train": sampling})
    assert trial.largest({"memory": 1000 + 7 * 12_345}, 10**6) == pytest.approx(12_345 / 1.5, abs=1)


# three quarters of 10,000 bytes: (7,500 - 1,000) / 7 = 928, down to a multiple of 64
@pytest.mark.parametrize(("free", "found"), [(0, 64), (10_000, 896), (2**50, 4096)])
def test_from_the_least_to_what_a_cpu_has_use_for(
    recipe: Recipe, corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch, free: int, found: int
) -> None:
    monkeypatch.setattr(auto_batch, "Trial", LinearTrial)
    monkeypatch.setattr(auto_batch, "free_memory", lambda device: {"memory": free})
    assert find_batch_tokens(recipe, corpus, CPU) == found


def test_trials_grow_only_as_far_as_the_line_allows(recipe: Recipe, corpus: PreparedCorpus) -> None:
    """A line through the first two is far off here, but memory is never filled beyond the limit on the way."""

    class Curved(LinearTrial):
        sizes: ClassVar[list[int]] = []

        def peak(self, size: int) -> dict[str, int]:
            self.sizes.append(size)
            return {"memory": 10_000 + 3 * max(0, size - 700)}

    found = Curved(recipe, corpus, CPU).largest({"memory": 100_000}, 10**6)
    assert found == 30_700
    assert all(10_000 + 3 * size <= 100_000 for size in Curved.sizes)
    assert len(Curved.sizes) <= 6


def test_where_trials_do_not_fit_smaller_ones_are_made(recipe: Recipe, corpus: PreparedCorpus) -> None:
    class Narrow(LinearTrial):
        limit = 600

        def peak(self, size: int) -> dict[str, int]:
            if size > self.limit:
                raise MemoryError
            return super().peak(size)

    assert Narrow(recipe, corpus, CPU).largest({"memory": 1000 + 7 * 280}, 10**6) == 280
    Narrow.limit = 40
    with pytest.raises(ConfigError, match=r"train.batch_tokens: auto found that not even a batch of 64 tokens fits"):
        Narrow(recipe, corpus, CPU).largest({"memory": 10**9}, 10**6)


def test_the_worst_batches_are_the_worst_of_an_epoch(recipe: Recipe, corpus: PreparedCorpus) -> None:
    """No batch that a training reads needs more, and they are batches that some epoch could have."""
    count = recipe.train.length_groups
    lengths = SentenceLengths.of(corpus.train)
    stream = BatchStream(corpus.train, lengths, 1024 // count, recipe.seed, count)
    batches = [stream.next() for _ in range(len(stream.plan().groups) // count)]
    assert len(batches) > 5

    def tokens(batch: Batch) -> int:
        return size_of(batch)

    def weights(batch: Batch) -> int:
        shapes = [(*group.source.shape, group.target_out.size(1)) for group in batch.groups]
        return sum(sentences * (s * s + s * t + t * t) for sentences, s, t in shapes)

    most_tokens, longest = worst_batches(with_batch_tokens(recipe, 1024), corpus, 1024)
    assert max(map(tokens, batches)) <= tokens(most_tokens) < 1.5 * max(map(tokens, batches))
    assert max(map(weights, batches)) <= weights(longest)
    assert len(most_tokens.groups) == len(longest.groups) == count


def test_few_pairs_make_whole_batches_too(recipe: Recipe, corpus: PreparedCorpus) -> None:
    for batch in worst_batches(recipe, corpus, 10**6):
        assert len(batch.groups) == recipe.train.length_groups


def test_a_peak_is_seen_though_it_has_passed() -> None:
    before = used_memory(CPU)

    def work() -> None:
        block = torch.ones(50 * MEBIBYTE // 4)
        for _ in range(20):
            block.add_(1)

    peak = peak_memory(CPU, work)
    assert 45 * MEBIBYTE < peak["memory"] - before["memory"] < 80 * MEBIBYTE
    assert used_memory(CPU)["memory"] < peak["memory"] - 40 * MEBIBYTE
    with pytest.raises(ZeroDivisionError):
        peak_memory(CPU, lambda: 1 // 0)  # type: ignore[arg-type, return-value]


def test_limits_of_the_process_and_of_its_control_group_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < free_memory(CPU)["memory"] < 2**50
    monkeypatch.setattr(auto_batch, "_left_in_control_groups", lambda: [12_345])
    assert free_memory(CPU)["memory"] == 12_345
    monkeypatch.setattr(resource, "getrlimit", lambda which: (2**45, 2**45))
    assert free_memory(CPU)["address space"] == pytest.approx(2**45 - used_memory(CPU)["address space"], abs=2**28)
    with pytest.raises(ConfigError, match=r"train.batch_tokens: auto cannot measure memory of mps .* such as 4096"):
        free_memory(torch.device("mps"))


def test_nothing_is_left_of_a_trial(recipe: Recipe, corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_batch, "_FIRST_TRY", 64)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    assert find_batch_tokens(recipe, corpus, CPU) > 64
    assert torch.equal(torch.get_rng_state(), before)


def test_a_run_keeps_to_what_was_found(
    recipe: Recipe, corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([1000, 2000, 3000, 4000])
    monkeypatch.setattr(auto_batch, "find_batch_tokens", lambda *_: next(found))
    said: list[str] = []
    run = RunDirectory(tmp_path)

    def settle(chosen: Recipe, restart: bool = False) -> int:
        settled = settle_batch_tokens(chosen, corpus, run, restart, said.append)
        run.begin(settled, restart)
        return settled.train.budget

    assert settle(recipe) == 1000
    assert said == ["train.batch_tokens: auto is 1,000, as many as fit in the memory of cpu"]
    assert settle(recipe) == 1000, "killed before its first checkpoint, it is the same run still"
    assert said[-1] == f"train.batch_tokens: auto is 1,000, as {tmp_path} began with"
    other = recipe.model_copy(update={"seed": 9})
    assert settle(other) == 2000, "another run in the same place"
    (run.checkpoints / "step-00000001").mkdir()
    assert settle(other) == 2000
    with pytest.raises(ConfigError, match="seed: was 9, now 1"):
        settle(recipe)
    with pytest.raises(ConfigError, match=r"train\.batch_tokens: was 2000, now 512"):
        settle(with_batch_tokens(other, 512))
    assert settle(with_batch_tokens(other, 2000)) == 2000
    assert settle(other, restart=True) == 3000


PROGRAM = """
import resource, sys
from pathlib import Path
import torch
from nmt.config import load_recipe
from nmt.training import auto_batch
from nmt.training.auto_batch import *
torch.set_num_threads(1)
auto_batch.MOST_ON_A_CPU = 10**6
recipe = load_recipe(Path(sys.argv[1]), ["model.dim=128", "model.feed_forward=512"])
corpus = PreparedCorpus.open(recipe.prepared_directory)
cpu = torch.device("cpu")
Trial(recipe, corpus, cpu).peak(64)  # what is loaded at first use
resource.setrlimit(resource.RLIMIT_AS, (used_memory(cpu)["address space"] + int(sys.argv[2]) * 2**20,) * 2)
found = find_batch_tokens(recipe, corpus, cpu)
print(found)
for size in (found, int(found * 1.5)):
    try:
        Trial(recipe, corpus, cpu).peak(size)
        print("fits")
    except MemoryError:
        print("does not fit")
"""


@pytest.mark.slow
def test_under_a_real_limit_what_is_found_fits_and_half_as_much_again_does_not(recipe: Recipe) -> None:
    file = recipe.prepared_directory.parent / "recipe.yaml"
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file), "1000"], capture_output=True, text=True, check=False
    )
    found, fits, half_as_much_again = run.stdout.split("\n")[:3]
    assert int(found) > 1000, run.stderr
    assert (fits, half_as_much_again) == ("fits", "does not fit"), (found, run.stderr)
