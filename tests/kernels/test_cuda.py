"""Models with the kernels for GPUs against plain torch; on a CPU in Triton's interpreter."""

import os

import pytest
import torch
from torch import Tensor

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # which Triton reads when it is imported
pytest.importorskip("triton", reason="Triton is not installed: it comes with builds of torch for NVIDIA GPUs")

from nmt.batching.batch import assemble
from nmt.config import MaxLength, ModelSettings
from nmt.decoding.engine import search
from nmt.decoding.options import SearchOptions
from nmt.kernels.cuda import CudaKernels
from nmt.kernels.reference import Kernels
from nmt.model.transformer import Transformer
from nmt.text.prepared import Sentences
from tests.builders import padded

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
VOCABULARY = 90
VARIANTS: list[dict[str, object]] = [
    {},
    {"positions": "rotary", "activation": "swiglu"},
    {"norm": "post", "activation": "gelu", "tied_embeddings": "none"},
    {"positions": "relative", "norm": "post"},
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
        loss, likelihood = model.loss(assemble(groups, model.kernels.sizes).to(DEVICE), 0.1)
        loss.backward()
        results += [loss.detach(), likelihood]
    return [*results, *(weight.grad.clone() for weight in model.parameters())]


def assert_near(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5 * max(1.0, float(expected.abs().max())))


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_loss_and_gradients_equal_those_of_plain_torch(changes: dict[str, object]) -> None:
    """Batches are filled; a sentence is longer than a tile; gradients are added to those of the batch before."""
    batches = (
        [(sentences(70, 12), sentences(20, 66)), (sentences(3, 4), sentences(5, 5))],
        [(sentences(3), sentences(7))],
    )
    both = Kernels(DEVICE), CudaKernels(DEVICE, "fp32", 160)
    plain, ours = (trained(model_with(kernels, **changes), *batches) for kernels in both)
    for found, expected in zip(ours, plain, strict=True):
        assert_near(found, expected)


@torch.no_grad()
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_hidden_states_of_padded_sentences_and_their_search_equal_those_of_plain_torch(
    changes: dict[str, object],
) -> None:
    source, mask = padded([[5] * length + [3] for length in (3, 60, 7, 9, 70)])
    target, _ = padded([[2] + [8] * length for length in (60, 4, 66, 1, 2)])
    plain, ours = (model_with(kernels, **changes).eval() for kernels in (Kernels(DEVICE), CudaKernels(DEVICE)))
    assert_near(ours(source.to(DEVICE), target.to(DEVICE)), plain(source.to(DEVICE), target.to(DEVICE)))
    options = SearchOptions(beam=2, max_length=MaxLength(factor=0, extra=5))
    found, expected = (search(model.for_inference(model.kernels), source, mask, options) for model in (ours, plain))
    assert [best[0].tokens for best in found] == [best[0].tokens for best in expected]


def test_dropout_is_a_function_of_the_seed() -> None:
    model, groups = model_with(CudaKernels(DEVICE), dropout=0.3), [(sentences(3, 9), sentences(5, 7))]
    results = []
    for seed in (1, 1, 2):
        model.kernels.seed(seed)
        results.append(trained(model, groups))
    assert all(torch.equal(one, again) for one, again in zip(*results[:2], strict=True))
    assert float(results[0][0]) != float(results[2][0])


@pytest.mark.parametrize(
    ("rows", "filled"),
    [((0, 0), (64, 160)), ((64, 160), (64, 160)), ((65, 1), (128, 160)), ((1000, 161), (1024, 192))],
)
def test_batches_are_filled_to_a_few_sizes(rows: tuple[int, int], filled: tuple[int, int]) -> None:
    assert CudaKernels(DEVICE, "fp32", 160).sizes(*rows) == filled
    assert CudaKernels(DEVICE).sizes(*rows) == Kernels(DEVICE).sizes(*rows)
