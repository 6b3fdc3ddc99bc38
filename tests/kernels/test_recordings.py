"""Updates and searches that are recorded and replayed, see `replayed_graphs`, against the same without recordings."""

import pytest
import torch
from torch import Tensor

from tests.kernels.test_cuda import VOCABULARY, Groups, model_with, sentences  # first: it selects the interpreter

if torch.cuda.is_available():
    pytest.skip("recordings on a GPU are checked by benchmarks/gpu.py", allow_module_level=True)

from nmt.batching.batch import Batch, assemble
from nmt.config import MaxLength, ModelSettings
from nmt.decoding.options import SearchOptions
from nmt.decoding.torch_engine import TorchEngine
from nmt.kernels.cuda import CudaKernels
from nmt.kernels.reference import Kernels
from nmt.model.transformer import Transformer
from nmt.training.update import Updater
from tests.builders import tiny_recipe
from tests.kernels.replayed_graphs import record_on_cpu

CPU = torch.device("cpu")
SHAPE = ModelSettings(encoder_layers=1, decoder_layers=1, dim=16, feed_forward=16, heads=1, positions="rotary")


def test_a_layout_that_comes_again_is_recorded_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs, kernels, applied = record_on_cpu(monkeypatch), CudaKernels(CPU, target_rows=64), list[Batch]()
    add = kernels.recorded(applied.append, "an update")
    short, long = ([(sentences(3), sentences(length))] for length in (4, 100))
    first, second, third, other = (assemble(groups, kernels.sizes) for groups in (short, short, short, long))
    for batch in (first, second, third, other):
        add(batch)
    assert [len(batch.labels) for batch in applied] == [64, 64, 128], "the third one is replayed"
    static = applied[1]  # what was recorded reads the batch that is copied into this one
    for part in ("source", "target"):
        for name in ("ids", "positions", "sentences", "tiles"):
            assert torch.equal(getattr(getattr(static, part), name), getattr(getattr(third, part), name))
    assert torch.equal(static.labels, third.labels)
    assert [graph.replays for graph in graphs] == [2]
    assert kernels.release_memory()
    add(third)
    assert len(applied) == 4, "nothing is recorded any more"
    assert not kernels.release_memory()


def test_an_update_that_cannot_be_recorded_is_computed_without(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = record_on_cpu(monkeypatch, "operation failed due to a previous error during capture")
    kernels, sites = CudaKernels(CPU, target_rows=64), list[int]()

    def function(batch: Batch) -> None:
        kernels.dropout(torch.ones(4), 0.5)
        sites.append(kernels.site)

    add, batch = kernels.recorded(function, "an update"), assemble([(sentences(3), sentences(4))], kernels.sizes)
    for _ in range(3):
        kernels.seed(1)
        add(batch)
    assert sites == [1, 1, 1, 1], "the second was tried twice, with the same masks"
    assert [graph.replays for graph in graphs] == [0]
    assert kernels.problem is not None
    assert "cannot be recorded" in kernels.problem


def test_recorded_updates_equal_those_that_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, with dropout; batches of one layout have other sentences."""
    recipe, kernels, graphs = tiny_recipe(), list[CudaKernels](), record_on_cpu(monkeypatch)
    recipe = recipe.model_copy(update={"model": SHAPE.model_copy(update={"dropout": 0.2})})

    def kernels_for(*_: object, **__: object) -> Kernels:
        kernels.append(CudaKernels(CPU, "fp32", 64))
        return kernels[-1]

    monkeypatch.setattr("nmt.training.update.kernels_for", kernels_for)
    layouts = [(3, 4), (9,), (5, 5, 5)]
    batches: list[Groups] = [[(sentences(*lengths), sentences(*reversed(lengths)))] for lengths in layouts]

    def trained(records: bool) -> list[Tensor]:
        torch.manual_seed(0)
        updater, results = Updater(Transformer(recipe.model, VOCABULARY, VOCABULARY), recipe, CPU), list[float]()
        if not records:
            kernels[-1].release_memory()
        for step in (1, 2):
            pair = [assemble(groups, kernels[-1].sizes) for groups in batches[2 * step - 2 : 2 * step]]
            results += updater.update(pair, step, sum(batch.target_tokens for batch in pair)).results()
        return [torch.tensor(results), *updater.model.parameters()]

    recorded, plain = trained(True), trained(False)
    assert [graph.replays for graph in graphs] == [2]
    assert all(map(torch.equal, recorded, plain))


@pytest.mark.parametrize(
    ("models", "options", "prefixes"),
    [
        (1, SearchOptions(beam=2, n_best=2), [[], []]),
        (2, SearchOptions(beam=1, no_repeat_ngram=2), [[7], [8, 9]]),
    ],
    ids=["beam", "ensemble"],
)
def test_replayed_searches_equal_those_of_plain_torch(
    monkeypatch: pytest.MonkeyPatch, models: int, options: SearchOptions, prefixes: list[list[int]]
) -> None:
    """The second search, of other lengths, replays the recordings of the first one."""
    graphs, lengths = record_on_cpu(monkeypatch), MaxLength(factor=0, extra=3)
    options = options.model_copy(update={"max_length": lengths, "batch_tokens": 128 * options.width})
    monkeypatch.setattr(CudaKernels, "encoder_multiple", 64)  # more take the interpreter long
    monkeypatch.setattr(CudaKernels, "steps_per_fetch", 2)
    ours = CudaKernels(CPU)
    ours._on_gpu = True

    def translations(kernels: Kernels) -> list[list[list[int]]]:
        chosen = [model_with(kernels, dim=32 * number).eval() for number in range(1, models + 1)]
        engine = TorchEngine([model.for_inference(kernels) for model in chosen])
        searches = [engine.search([[5] * n, [6, 7]], options, prefixes) for n in (3, 7)]
        return [[hypothesis.tokens for hypothesis in best] for search in searches for best in search]

    assert translations(ours) == translations(Kernels(CPU))
    assert ours.problem is None
    assert sorted(graph.replays > 0 for graph in graphs) == [True, True], "the encoder and the step"
