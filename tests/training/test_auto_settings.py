"""Settings that are `auto`: the largest batch that fits on a GPU, bf16 where it is faster; a run keeps them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nmt.batching.batch import Batch
from nmt.batching.batch_stream import BatchStream
from nmt.commands.prepare import prepare
from nmt.commands.train import train
from nmt.config import ModelSettings, Recipe, RuntimeSettings, load_recipe
from nmt.errors import ConfigError
from nmt.model.kernels import kernels
from nmt.model.transformer import Transformer
from nmt.system.console import Console
from nmt.text.prepared import PreparedCorpus
from nmt.training import auto_settings
from nmt.training.auto_settings import bf16_gain, choose_settings, find_batch_tokens, largest_fitting
from nmt.training.resume import check_may_continue, with_batch_tokens
from nmt.training.run import RunDirectory
from nmt.training.step import Updater
from nmt.training.trial import Trial, worst_batches
from nmt.translation.translator import Translator
from tests.builders import batch_of, tiny_recipe, write_recipe, write_reversal_task
from tests.training.runs import CPU, QUIET, interrupt_at, same_tensors

RUNTIME = {"device": "cpu", "threads": 1}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Recipe:
    folder = tmp_path_factory.mktemp("auto_settings")
    rows = (repository / "data" / "demo" / "train.tsv").read_text(encoding="utf-8").splitlines()[:1500]
    # a few pairs are long, a few have sides of very different lengths
    rows = [row.split("\t")[:2] for row in rows]
    rows += [[" ".join(source for source, _ in rows[i : i + 8]), rows[i][1]] for i in range(0, 80, 8)]
    (folder / "train.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    write_recipe(
        folder,
        tokenizer={"vocab_size": 600},
        model={"encoder_layers": 2, "decoder_layers": 2, "dim": 32, "feed_forward": 128, "heads": 2},
        train={"batch_tokens": "auto", "stop": {"steps": 2}},
        runtime={"device": "cpu", "precision": "fp32", "threads": 1},
        prepared="prepared",
    )
    chosen = load_recipe(folder / "recipe.yaml")
    prepare(chosen, QUIET)
    return chosen


@pytest.fixture(scope="module")
def corpus(recipe: Recipe) -> PreparedCorpus:
    return PreparedCorpus.open(recipe.prepared_directory)


def linear(size: int) -> float:
    """Return a peak of 1000 bytes and 7 for each token."""
    return 1000 + 7 * size


@pytest.mark.parametrize(
    ("free", "most", "growth", "expected"),
    [
        (1000 + 7 * 12_345, 10**6, 1.0, 12_345),
        (1000 + 7 * 12_345, 10_000, 1.0, 10_000),
        (1000 + 7 * 12_345, 10**6, 1.5, 12_345 * 2 // 3),
        (0, 10**6, 1.0, 0),
    ],
)
def test_largest_fitting_solves_a_linear_peak(free: int, most: int, growth: float, expected: int) -> None:
    assert largest_fitting(linear, free, most, growth) == expected


def test_largest_fitting_does_not_exceed_the_limit_of_a_curved_peak() -> None:
    """A line through the first two peaks overestimates the largest size."""
    sizes = []

    def curved(size: int) -> float:
        sizes.append(size)
        return 10_000 + 3 * max(0, size - 700)

    assert largest_fitting(curved, 100_000, 10**6) == 30_700
    assert all(10_000 + 3 * size <= 100_000 for size in sizes)


def narrow(limit: int) -> Callable[[int], float]:
    return lambda size: linear(size) if size <= limit else float("inf")


def test_largest_fitting_tries_smaller_sizes_after_running_out_of_memory() -> None:
    assert largest_fitting(narrow(600), 1000 + 7 * 280, 10**6) == 280
    with pytest.raises(ConfigError, match=r"train.batch_tokens: auto found that not even a batch of 64 tokens fits"):
        largest_fitting(narrow(40), 10**9, 10**6)


def test_auto_is_a_constant_on_a_cpu(recipe: Recipe, corpus: PreparedCorpus) -> None:
    assert find_batch_tokens(recipe, corpus, CPU) == 4096


def test_auto_on_a_gpu_fits_with_a_margin(
    recipe: Recipe, corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 10,000 free bytes nine tenths may be used: (9,000 - 1,000) / 7 = 1,142, rounded down to a multiple of 64."""

    class LinearTrial(Trial):
        def peak(self, size: int) -> float:
            return linear(size)

    monkeypatch.setattr(auto_settings, "Trial", lambda recipe, corpus, device: LinearTrial(recipe, corpus, CPU))
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: torch.no_grad())
    for free, found in ((10_000, 1088), (0, 64), (2**50, 32_768)):
        monkeypatch.setattr(auto_settings, "free_device_memory", lambda device, free=free: free)
        assert find_batch_tokens(recipe, corpus, torch.device("cuda")) == found


def test_trial_updates_leave_the_weights_unchanged(recipe: Recipe, corpus: PreparedCorpus) -> None:
    trial = Trial(recipe, corpus, CPU)
    before = {name: weight.detach().clone() for name, weight in trial.updater.model.named_parameters()}
    trial.update(worst_batches(recipe, corpus, 64))
    assert all(torch.equal(before[name], weight) for name, weight in trial.updater.model.named_parameters())


def test_worst_batches_need_at_least_as_much_as_any_batch_of_an_epoch(recipe: Recipe, corpus: PreparedCorpus) -> None:
    """No batch of an epoch needs more memory, and an epoch can contain such batches."""
    count = recipe.train.length_groups
    stream = BatchStream(corpus.train, 1024 // count, recipe.seed, count)
    batches = [stream.next() for _ in range(len(stream.plan()) // count)]
    assert len(batches) > 5

    def tokens(batch: Batch) -> int:
        return batch.padded_tokens

    def weights(batch: Batch) -> int:
        shapes = [(*group.source.shape, group.target_out.size(1)) for group in batch.groups]
        return sum(sentences * (s * s + s * t + t * t) for sentences, s, t in shapes)

    most_tokens, longest = worst_batches(with_batch_tokens(recipe, 1024), corpus, 1024)
    assert max(map(tokens, batches)) <= tokens(most_tokens) < 1.5 * max(map(tokens, batches))
    assert max(map(weights, batches)) <= weights(longest)
    assert len(most_tokens.groups) == len(longest.groups) == count


def test_worst_batches_of_a_small_corpus_have_all_length_groups(recipe: Recipe, corpus: PreparedCorpus) -> None:
    for batch in worst_batches(recipe, corpus, 10**6):
        assert len(batch.groups) == recipe.train.length_groups


def test_batch_tokens_of_auto_are_recorded_with_the_run(
    recipe: Recipe, corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([1000, 2000, 3000, 4000])
    monkeypatch.setattr(auto_settings, "find_batch_tokens", lambda *_: next(found))
    messages: list[str] = []
    run = RunDirectory(tmp_path)

    def choose(chosen: Recipe, restart: bool = False) -> int:
        chosen_recipe = choose_settings(chosen, corpus, run, restart, messages.append)
        if not restart:
            check_may_continue(chosen_recipe, run)
        run.path.mkdir(exist_ok=True)
        run.open(chosen_recipe, restart)
        return chosen_recipe.train.budget

    assert choose(recipe) == 1000
    assert messages == ["train.batch_tokens: auto is 1,000, as many as fit into the memory of cpu"]
    assert choose(recipe) == 1000, "killed before its first checkpoint, it is the same run still"
    assert messages[-1] == f"train.batch_tokens: auto is 1,000, as recorded in {tmp_path}"
    other = recipe.model_copy(update={"seed": 9})
    assert choose(other) == 2000, "another run in the same place"
    monkeypatch.setattr(RunDirectory, "saved", lambda _: [run.checkpoint(1)])
    assert choose(other) == 2000
    with pytest.raises(ConfigError, match="seed: was 9, now 1"):
        choose(recipe)
    with pytest.raises(ConfigError, match=r"train\.batch_tokens: was 2000, now 512"):
        choose(with_batch_tokens(other, 512))
    assert choose(with_batch_tokens(other, 2000)) == 2000
    assert choose(other, restart=True) == 3000


def test_precision_is_kept_by_a_run_that_was_killed_before_its_first_checkpoint(
    recipe: Recipe, corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    automatic = recipe.model_copy(update={"runtime": RuntimeSettings.model_validate(RUNTIME)})
    run, messages = RunDirectory(tmp_path / "run"), list[str]()
    for gain in (1.7, 0.0):
        monkeypatch.setattr(auto_settings, "bf16_gain", lambda model, gain=gain: gain)
        chosen = choose_settings(automatic, corpus, run, False, messages.append)
        assert chosen.runtime.precision == "bf16"
        run.open(chosen)
    assert messages[2] == f"runtime.precision: auto is bf16, as recorded in {run.path}"


def recorded_precision(folder: Path) -> str:
    return load_recipe(folder / "run" / "recipe.yaml").runtime.precision


@pytest.mark.parametrize(("gain", "chosen"), [(0.0, "fp32"), (1.1, "fp32"), (1.7, "bf16")])
def test_bf16_is_chosen_where_it_is_faster_and_kept_by_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], gain: float, chosen: str
) -> None:
    recipe = write_reversal_task(tmp_path, changes={"runtime": RUNTIME})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(auto_settings, "bf16_gain", lambda model: gain)
    train(load_recipe(recipe, ["train.stop.steps=1"]), Console())
    assert recorded_precision(tmp_path) == chosen
    message = "runtime.precision: auto is bf16, whose matrix products are 1.7 times as fast as in fp32"
    assert (message in capsys.readouterr().err) == (chosen == "bf16")
    # as if resumed on another machine
    monkeypatch.setattr(auto_settings, "bf16_gain", lambda model: 1.7 - gain)
    train(load_recipe(recipe, ["train.stop.steps=2"]), Console())
    assert recorded_precision(tmp_path) == chosen
    assert ("auto is bf16, as recorded in" in capsys.readouterr().err) == (chosen == "bf16")
    train(load_recipe(recipe, ["train.stop.steps=1"]), Console(), restart=True)
    assert recorded_precision(tmp_path) == ("bf16" if 1.7 - gain >= 1.2 else "fp32")


@pytest.mark.parametrize(("native", "dim"), [(False, 512), (True, 64)])
def test_gain_is_zero_where_bf16_is_emulated_and_for_narrow_models(
    monkeypatch: pytest.MonkeyPatch, native: bool, dim: int
) -> None:
    monkeypatch.setattr(kernels, "has_bf16", native, raising=False)
    assert bf16_gain(ModelSettings(dim=dim)) == 0


def test_gain_is_the_ratio_of_the_fastest_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fp32 product takes 6 seconds at best, the bf16 product 4."""
    monkeypatch.setattr(kernels, "has_bf16", True, raising=False)
    durations = iter([9.0, 8.0, 6.0, 4.0] + [7.0, 5.0] * 6)
    now = 0.0

    def thread_time() -> float:
        nonlocal now, running
        now += next(durations) if running else 1.0
        running = not running
        return now

    running = False
    monkeypatch.setattr("nmt.training.auto_settings.time.thread_time", thread_time)
    assert bf16_gain(ModelSettings(dim=128)) == 6 / 4


def test_bf16_training_learns_resumes_bit_for_bit_and_translates_as_nmt_translate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {
        "runtime": {**RUNTIME, "precision": "bf16"},
        "data": {"train": [{"file": "train.tsv"}], "valid": {"file": "valid.tsv"}, "test": {"file": "test.tsv"}},
        "model": {"encoder_layers": 1, "decoder_layers": 1, "dim": 32, "heads": 2, "feed_forward": 64, "dropout": 0.1},
    }
    recipe = write_reversal_task(tmp_path, changes=changes)
    monkeypatch.chdir(tmp_path)
    updates: list[float] = []
    dispatch = Updater.dispatch

    def recorded(updater: Updater, *arguments: object) -> object:
        update = dispatch(updater, *arguments)  # type: ignore[arg-type]
        finished = update.synchronized()
        updates.append(finished.loss / finished.target_tokens)
        return update

    monkeypatch.setattr(Updater, "dispatch", recorded)
    train(load_recipe(recipe, ["train.stop.steps=40"]), Console())
    assert updates[-1] < 0.9 * updates[0]
    with monkeypatch.context() as patch:
        interrupt_at(patch, 13)
        train(load_recipe(recipe, ["train.stop.steps=40", "run=again"]), Console())
    train(load_recipe(recipe, ["train.stop.steps=40", "run=again"]), Console())
    assert same_tensors(tmp_path / "run", tmp_path / "again")

    sources = [line.split("\t")[0] for line in (tmp_path / "test.tsv").read_text().splitlines()]
    translations = [translation.text for translation in Translator.load(tmp_path / "run").translate(sources)]
    assert (tmp_path / "run" / "test.txt").read_text().splitlines() == translations


def test_bf16_update_equals_fp32_update_up_to_rounding() -> None:
    batch = batch_of([([5, 6, 7], [8, 9]), ([6, 5], [7, 7, 5, 6])])
    updates = []
    for precision in ("fp32", "bf16"):
        recipe = tiny_recipe().model_copy(update={"runtime": RuntimeSettings(device="cpu", precision=precision)})
        torch.manual_seed(1)
        updates.append(Updater(Transformer(recipe.model, 11, 11), recipe, CPU).update([batch], 1))
    in_fp32, in_bf16 = updates
    assert in_bf16.loss != in_fp32.loss
    assert in_bf16.loss == pytest.approx(in_fp32.loss, rel=0.02)
    assert in_bf16.gradient_norm == pytest.approx(in_fp32.gradient_norm, rel=0.05)
