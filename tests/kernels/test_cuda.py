"""Models with the kernels for GPUs against plain torch; on a CPU in Triton's interpreter."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # which Triton reads when it is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with builds of torch for NVIDIA GPUs")

from nmt.batching.batch import assemble
from nmt.config import MaxLength, ModelSettings
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.kernels import triton_attention
from nmt.kernels.cuda import CudaKernels
from nmt.kernels.reference import Kernels, SearchSize
from nmt.model.transformer import Transformer
from nmt.text.prepared import Sentences
from tests.builders import padded

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
VOCABULARY = 90
VARIANTS: list[dict[str, object]] = [
    {"positions": "rotary", "activation": "swiglu", "norm_epsilon": 1e-2},
    {"positions": "learned", "norm": "post", "activation": "gelu", "tied_embeddings": "none"},
    {"positions": "relative"},
]


def sentences(*lengths: int) -> Sentences:
    return Sentences.of([torch.randint(5, VOCABULARY, (length,)).tolist() for length in lengths])


def model_with(kernels: Kernels, **changes: object) -> Transformer:
    torch.manual_seed(0)
    shape = {"encoder_layers": 1, "decoder_layers": 1, "dim": 32, "feed_forward": 48, "heads": 2, "dropout": 0.0}
    model = Transformer(ModelSettings.model_validate({**shape, **changes}), VOCABULARY, VOCABULARY).to(DEVICE)
    model.compute_with(kernels)
    return model


Groups = list[tuple[Sentences, Sentences]]


def trained(model: Transformer, *batches: Groups) -> list[Tensor]:
    """Return the losses and likelihoods, and the sums of the gradients of all batches."""
    results = []
    model.zero_grad()
    for groups in batches:
        loss, likelihood = model.loss(assemble(groups, model.kernels.sizes).copied(model.kernels.to_device), 0.1)
        loss.backward()
        results += [loss.detach(), likelihood]
    return [*results, *(weight.grad.clone() for weight in model.parameters())]


def assert_near(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5 * max(1.0, float(expected.abs().max())))


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_loss_and_gradients_equal_those_of_plain_torch(changes: dict[str, object]) -> None:
    """Batches are filled; a sentence is longer than a tile; gradients are added to those of the batch before."""
    batches = (
        [(sentences(70), sentences(20)), (sentences(3, 4), sentences(5, 5))],
        [(sentences(3), sentences(7))],
    )
    both = Kernels(DEVICE), CudaKernels(DEVICE, "fp32", 64)
    plain, ours = (trained(model_with(kernels, **changes), *batches) for kernels in both)
    for found, expected in zip(ours, plain, strict=True):
        assert_near(found, expected)


@torch.no_grad()
@pytest.mark.parametrize("changes", VARIANTS[:2], ids=str)
def test_logits_of_padded_sentences_and_their_search_equal_those_of_plain_torch(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    monkeypatch.setattr(CudaKernels, "encoder_multiple", 64)  # more take the interpreter long
    sources = [[5] * length + [3] for length in (3, 7, 70)]
    source, _ = padded(sources)
    target, _ = padded([[2] + [8] * length for length in (66, 4, 1)])
    plain, ours = (model_with(kernels, **changes).eval() for kernels in (Kernels(DEVICE), CudaKernels(DEVICE)))
    assert_near(ours(source.to(DEVICE), None, target.to(DEVICE)), plain(source.to(DEVICE), None, target.to(DEVICE)))
    options = SearchOptions(beam=2, max_length=MaxLength(factor=0, extra=3))
    found, expected = (search([model.for_inference(model.kernels)], sources, options) for model in (ours, plain))
    assert [best[0].tokens for best in found] == [best[0].tokens for best in expected]


def test_searches_have_few_sizes() -> None:
    kernels, many = CudaKernels(DEVICE), 100_000
    assert kernels.search_size([9], 28, 2048) == (1, 16, 32)
    assert kernels.search_size([17] * 5, 44, 2048) == (16, 32, 64)
    assert kernels.search_size([16] * many, 42, 2048) == (32, 16, 64)  # 64 tokens a slot at least
    assert kernels.search_size([300] * many, 610, 2048) == (4, 512, 1024)
    assert kernels.search_size([5000] * 3, 9000, 2048)[0] == 1
    kernels.reduce_search_size(0, SearchSize(4, 512, 1024))  # else every batch of the rest would fail first
    assert kernels.search_size([300] * many, 610, 2048)[0] == 2
    assert kernels.search_size([16] * many, 42, 2048)[0] == 32, "shorter sentences fit"
    assert kernels.search_size([9], 28, 2048)[0] == 1


@given(st.lists(st.integers(1, 64), min_size=1, max_size=3000))
def test_all_sentences_of_a_search_end_when_the_longest_one_does(lengths: list[int]) -> None:
    """If each takes as many steps as its source has tokens; the number of slots is at most four times the least."""
    slots, _, _ = CudaKernels(DEVICE).search_size(lengths, 64, 2**20)
    least = sum(lengths) / max(lengths)
    assert least <= slots < 4 * max(1, least)


def test_the_last_searches_are_kept() -> None:
    kernels, made = CudaKernels(DEVICE), list[int]()
    large, small = 2**28 - 2**26, 0  # in bytes, besides 64 MiB for each; four large ones take the GiB of this device

    def kept(number: int, size: int) -> None:
        assert kernels.reuse(number, size, lambda: made.append(number) or number) == number  # type: ignore[func-returns-value]

    for number in (1, 2, 3, 4, 1, 5, 1, 2):  # the one that is used least recently is 2, then 3
        kept(number, large)
    assert made == [1, 2, 3, 4, 5, 2]
    for number in (11, 12, 13, 14, 11, 2, 1, 4):  # four small ones take the place of a large one
        kept(number, large if number < 11 else small)
    assert made == [1, 2, 3, 4, 5, 2, 11, 12, 13, 14, 4]
    for line in range(20, 60):
        kept(line, small)
    kept(20, small)
    assert made[-1] == 20
    kept(61, 2**40)
    assert len(kernels._kept) == 1, "one is kept, however large it is"
    kept(62, small)
    kept(63, small)
    size = kernels.search_size([16] * 64, 32, 2048)
    kernels.reduce_search_size(63, size)  # another one may have filled the memory
    assert kernels.search_size([16] * 64, 32, 2048) == size
    assert kernels.release_memory()
    kernels.reduce_search_size(63, size)
    assert kernels.search_size([16] * 64, 32, 2048)[0] == size[0] // 2


@pytest.mark.parametrize("key", ["dropout", "attention_dropout", "activation_dropout"])
def test_dropout_is_a_function_of_the_seed(key: str) -> None:
    model, groups = model_with(CudaKernels(DEVICE), **{key: 0.3}), [(sentences(3, 9), sentences(5, 7))]
    losses = []
    for seed in (1, 1, 2):
        model.kernels.seed(seed)
        losses.append(float(model.loss(assemble(groups).copied(model.kernels.to_device))[0].detach()))
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize(
    ("rows", "filled"),
    [((0, 0), (64, 160)), ((64, 160), (64, 160)), ((65, 1), (128, 160)), ((1000, 161), (1024, 192))],
)
def test_batches_are_filled_to_a_few_sizes(rows: tuple[int, int], filled: tuple[int, int]) -> None:
    assert CudaKernels(DEVICE, "fp32", 160).sizes(*rows) == filled
    assert CudaKernels(DEVICE).sizes(*rows) == Kernels(DEVICE).sizes(*rows)


@pytest.mark.parametrize(("dim", "heads"), [(512, 8), (512, 2), (512, 1)])
def test_programs_of_attention_are_a_function_of_what_graphs_are_recorded_for(dim: int, heads: int) -> None:
    block = triton_attention._constants(torch.zeros(1, dim), heads, False)["BLOCK"]
    grids = {
        length: triton_attention._grid(assemble([(sentences(length), sentences(length))]).source, heads, block)[2]
        for length in (1, 62, 64, 70, 120, 130)
    }
    assert grids[1] == grids[62]
    assert grids[64] == grids[70] == grids[120] > grids[62]
    assert all(programs * block > length for length, programs in grids.items())
