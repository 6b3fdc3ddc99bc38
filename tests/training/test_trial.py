"""Trial updates: the largest batches, automatic settings, and `nmt train --dry-run`, which writes nothing."""

from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.batching.batch import Batch
from nmt.batching.batch_stream import BatchStream
from nmt.config import Recipe
from nmt.errors import ConfigError
from nmt.kernels.cpu import CpuKernels
from nmt.kernels.reference import Kernels
from nmt.model.transformer import Transformer
from nmt.text.prepared import PreparedCorpus
from nmt.training import trial as module
from nmt.training.run import RunDirectory
from nmt.training.trial import check_largest_batches, choose_settings, find_batch_tokens, largest_batches, trial
from nmt.training.update import Updater
from tests.builders import recipe_in, run_command, snapshot, split_of_sizes
from tests.training.runs import CPU, QUIET
from tests.training.updates import pretend_to_be_one_of_two_ranks, same, state, update


def tokens(batch: Batch) -> int:
    return batch.source_tokens + batch.target_tokens


@pytest.fixture(scope="module")
def recipe(texts: Path) -> Recipe:
    return recipe_in(texts, "train.batch_tokens=256", "train.accumulate=2", "runtime.precision=auto")


@pytest.fixture(scope="module")
def corpus(recipe: Recipe) -> PreparedCorpus:
    return PreparedCorpus.open(recipe.prepared_directory)


def changed(recipe: Recipe, **train: object) -> Recipe:
    return recipe.model_copy(update={"train": recipe.train.model_copy(update=train)})


def updater_of(recipe: Recipe, largest: int) -> Updater:
    """Return an updater with memory for batches of so many tokens."""
    torch.manual_seed(1)
    updater = Updater(Transformer(recipe.model, 336, 336), recipe, CPU)
    plain = updater.model.loss

    def loss(batch: Batch, smoothing: float) -> tuple[torch.Tensor, torch.Tensor]:
        if tokens(batch) > largest:
            raise torch.OutOfMemoryError
        return plain(batch, smoothing)

    updater.model.loss = loss  # type: ignore[method-assign]
    return updater


@pytest.fixture
def _limited_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU is a device with memory of its own."""
    monkeypatch.setattr(module, "free_memory", lambda device: 2**30)


def test_no_batch_of_the_epoch_is_larger_than_the_largest(recipe: Recipe, corpus: PreparedCorpus) -> None:
    stream = BatchStream.of_recipe(recipe, corpus)
    most, longest = largest_batches(stream)
    reader = BatchStream.of_recipe(recipe, corpus)
    batches = [reader.next() for _ in range(int(reader.batches_an_epoch))]
    assert max(tokens(batch) for batch in batches) <= tokens(most)
    lengths = [batch.source.longest for batch in (*batches, longest)]
    assert lengths[-1] >= np.quantile(lengths, 0.9)
    stream.rank, stream.world_size = 1, 3
    assert tokens(largest_batches(stream)[0]) == pytest.approx(tokens(most) / 3, rel=0.3)


@pytest.mark.parametrize("kind", [Kernels, CpuKernels])
@pytest.mark.parametrize("positions", ["sinusoidal", "relative"])
def test_rank_without_a_sentence_tries_the_largest_batches(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch, kind: type[Kernels], positions: str
) -> None:
    """Of eight ranks, when a length group is one long sentence."""
    chosen = recipe.model_copy(update={"model": recipe.model.model_copy(update={"positions": positions})})
    updater = Updater(Transformer(chosen.model, 336, 336), changed(chosen, batch_tokens=64, accumulate=1), CPU)
    updater.model.compute_with(kind(CPU))
    stream = BatchStream(split_of_sizes([(100, 120), (90, 110)]), 64, 1, world_size=8, sizes=kind(CPU).sizes)
    counts = []
    for stream.rank in range(8):
        for batch in largest_batches(stream):
            updater.backward_pass(batch.copied(updater.kernels.to_device))
            counts.append(batch.target_tokens)
    assert sorted(counts) == [0] * 14 + [120] * 2
    assert updater.weights.gradient.isfinite().all()


@pytest.mark.usefixtures("_limited_memory")
def test_batch_that_does_not_fit_is_an_error_that_names_one_that_does(recipe: Recipe, corpus: PreparedCorpus) -> None:
    stream = BatchStream.of_recipe(recipe, corpus)
    before = stream.position
    largest = max(tokens(batch) for batch in largest_batches(stream))
    check_largest_batches(updater_of(recipe, largest), stream)
    with pytest.raises(ConfigError) as caught:
        check_largest_batches(updater_of(recipe, largest // 2), stream)
    assert str(caught.value) == (
        "train.batch_tokens: a batch of 256 tokens does not fit into the memory of cpu, but 128 fit: for updates of "
        "the same size, set it to 128 and train.accumulate to 4"
    )
    with pytest.raises(ConfigError, match=r"256 tokens does not fit into .* no smaller one does: make the model small"):
        check_largest_batches(updater_of(recipe, 1), stream)
    assert stream.position == before


@pytest.mark.usefixtures("_limited_memory")
def test_largest_batches_change_no_weight_and_no_update(recipe: Recipe, corpus: PreparedCorpus) -> None:
    updaters = [updater_of(recipe, 10**9) for _ in range(2)]
    check_largest_batches(updaters[0], BatchStream.of_recipe(recipe, corpus))
    assert updaters[0].weights.gradient.any(), "gradients are computed"
    assert not updaters[0].optimizer.state
    assert same(state(updaters[0]), state(updaters[1]))
    for updater in updaters:
        update(updater, 1, BatchStream.of_recipe(recipe, corpus).next())
    assert same(state(updaters[0]), state(updaters[1]))


@pytest.mark.parametrize(("free", "found"), [(190_000, 8192), (10**9, 32_768), (1000, 2048)])
def test_auto_batch_tokens_double_until_the_memory_is_full(
    recipe: Recipe, corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch, free: int, found: int
) -> None:
    """A peak of 10 bytes for each token; 45 % of the memory may be used, free or cached."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free - 500, free))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 500)
    monkeypatch.setattr(module, "trial", lambda r, *_, **__: (10.0 * r.train.budget, 1, 1))
    assert find_batch_tokens(recipe, corpus, torch.device("cuda")) == found
    assert find_batch_tokens(recipe, corpus, CPU) == 4096


def test_auto_precision_follows_the_processor_and_the_width(
    recipe: Recipe, corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for has_bf16, dim, expected in ((True, 128, "bf16"), (True, 64, "fp32"), (False, 512, "fp32")):
        features = {"avx512bw", "avx512_bf16"} if has_bf16 else {"avx512bw"}
        monkeypatch.setattr("nmt.kernels.machine.processor_features", lambda features=features: features)
        chosen = recipe.model_copy(update={"model": recipe.model.model_copy(update={"dim": dim})})
        assert choose_settings(chosen, corpus, RunDirectory(tmp_path), False, QUIET).runtime.precision == expected


def test_trial_measures_updates(recipe: Recipe, corpus: PreparedCorpus) -> None:
    peak, tokens, seconds = trial(recipe, corpus, CPU)
    assert peak == 0, "measured on CUDA only"
    assert 256 < tokens < 2 * 256
    assert seconds > 0


def test_trial_counts_the_tokens_of_all_ranks(
    recipe: Recipe, corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two ranks has half of a batch."""
    _, tokens, _ = trial(recipe, corpus, CPU)
    pretend_to_be_one_of_two_ranks(monkeypatch)
    assert trial(recipe, corpus, CPU)[1] == pytest.approx(tokens, rel=0.1)


def test_dry_run_prints_an_estimate_and_writes_nothing(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "trial", lambda *_: (0.0, 480, 0.5))
    file, before = recipe.prepared_directory.parent / "recipe.yaml", snapshot(recipe.prepared_directory.parent)
    stop = "train.stop={steps: 1000, epochs: 4, hours: 0.25}"
    result = run_command("train", "-c", file, "--dry-run", "--set", stop, "--set", "train.batch_tokens=auto")
    assert result.exit_code == 0, result.stderr
    assert "auto is 4,096" in result.stderr
    rows = dict(line.split("  ", 1) for line in result.stdout.splitlines() if "  " in line)
    assert {name: rows[name].strip() for name in ("parameters", "speed", "train.stop.steps 1,000")} == {
        "parameters": f"{Transformer(recipe.model, 336, 336).parameter_count():,}",
        "speed": "960 target tokens/s, 0.50 s an update",
        "train.stop.steps 1,000": "0:08:20, after 1,000 updates",
    }
    assert rows["train.stop.hours 0.25"].endswith("0:15:00, after 1,800 updates")
    assert snapshot(recipe.prepared_directory.parent) == before
    assert list(tmp_path.iterdir()) == []
