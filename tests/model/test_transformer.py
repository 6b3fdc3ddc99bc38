"""The Transformer against a reference implementation of the papers, and by its invariants.

B sentences, S source length, T target length, D width, H heads, K beam, V vocabulary.
"""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.batching.batch import Rows, assemble
from nmt.config import ModelSettings
from nmt.kernels.device import kernels_for
from nmt.kernels.reference import Places
from nmt.model.cache import DecoderCache
from nmt.model.positions import sinusoids
from nmt.model.transformer import Transformer
from nmt.text.prepared import Sentences
from tests.model.reference_transformer import reference_of

PAD = 0
SOURCES = [[5, 6, 7, 8, 3], [9, 3], [4, 4, 10, 3]]
TARGETS = [[2, 9, 8, 7, 6, 5], [2, 5, 6], [2, 7, 7, 4]]


def build(
    source_vocabulary: int = 11, target_vocabulary: int = 11, double: bool = True, **changes: object
) -> Transformer:
    """Return a small random model without dropout; random biases and norms make every parameter affect the output."""
    torch.manual_seed(1)
    shape: dict[str, object] = {"encoder_layers": 2, "decoder_layers": 3, "dim": 12, "heads": 3, "feed_forward": 20}
    chosen = ModelSettings.model_validate({**shape, "dropout": 0.0, **changes})
    model = Transformer(chosen, source_vocabulary, target_vocabulary)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.copy_(torch.randn_like(parameter) * 0.3 + (1.0 if name.endswith("norm.weight") else 0.0))
    return (model.double() if double else model).eval()


def padded(sentences: list[list[int]], longest: int = 0) -> tuple[Tensor, Tensor]:
    longest = max(longest, *map(len, sentences))
    ids = torch.tensor([sentence + [PAD] * (longest - len(sentence)) for sentence in sentences])
    lengths = torch.tensor([[len(sentence)] for sentence in sentences])
    return ids, torch.arange(longest) < lengths


# reference implementation

# shorter than some distances in short sentences
RELATIVE: dict[str, object] = {"positions": "relative", "max_distance": 2}
ROTARY: dict[str, object] = {"positions": "rotary", "heads": 2}
ACTIVATIONS: list[dict[str, object]] = [
    {"norm": norm, "activation": activation}
    for norm, activation in itertools.product(["pre", "post"], ["relu", "gelu", "swish", "swiglu"])
]
OTHER_VARIANTS: list[dict[str, object]] = [
    *(
        {**positions, "norm": norm, "heads": 2}
        for positions, norm in itertools.product([RELATIVE, ROTARY], ["pre", "post"])
    ),
    {"positions": "learned", "max_positions": 8},
    {"norm_epsilon": 0.01},
    {"norm_epsilon": 0.01, "norm": "post", "max_distance": 5, "positions": "relative"},
    {"tied_embeddings": "target"},
    {"tied_embeddings": "none", "heads": 1},
    {"output_bias": True},
    {"attention_score": "dot"},
    {"attention_score": "bilinear", "norm": "post"},
    {"attention_score": "additive"},
]
VARIANTS = ACTIVATIONS + OTHER_VARIANTS


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_outputs_and_gradients_equal_the_reference_transformer(changes: dict[str, object]) -> None:
    tied = changes.get("tied_embeddings", "all") == "all"
    model = build(source_vocabulary=11 if tied else 14, **changes)
    reference = reference_of(model)
    sources = Rows.of(SOURCES)
    memory = model.encode(sources)
    logits = model.logits(model.decode(Rows.of(TARGETS), memory, sources))[:, :11]
    memories = [reference.encode(ids) for ids in SOURCES]
    expected = torch.cat([reference.decode(ids, memory) for ids, memory in zip(TARGETS, memories, strict=True)])
    torch.testing.assert_close(memory, torch.cat(memories), rtol=0, atol=1e-11)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-11)

    direction = torch.randn_like(expected)
    names, weights = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(logits, weights, direction)
    for name, ours, theirs in zip(names, found, torch.autograd.grad(expected, weights, direction), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")
        assert ours.any(), name


# positions


@pytest.mark.parametrize("dim", [2, 12, 512])
def test_sinusoids_equal_the_formula_of_the_paper(dim: int) -> None:
    vectors = sinusoids(torch.arange(1, 300), 300, torch.empty(0, dim))
    assert vectors.shape == (299, dim)
    for place, column in itertools.product([1, 2, 17, 299], sorted({0, 1, dim // 2, dim - 2, dim - 1})):
        angle = place / 10000 ** ((column - column % 2) / dim)
        expected = math.sin(angle) if column % 2 == 0 else math.cos(angle)
        assert vectors[place - 1, column] == pytest.approx(expected, abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("changes", [{}, RELATIVE, ROTARY], ids=str)
def test_positions_have_no_limit(changes: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.model.positions._SHORTEST_TABLE", 4)
    model = build(**changes)
    reference = reference_of(model)
    source = [3 + i % 8 for i in range(20)]
    memory = reference.encode(source)
    rows = Rows.of([source])
    torch.testing.assert_close(model.encode(rows), memory, rtol=0, atol=1e-11)
    logits = model.logits(model.decode(rows, memory, rows))[:, :11]
    torch.testing.assert_close(logits, reference.decode(source, memory), rtol=0, atol=1e-11)


# invariants


@torch.no_grad()
@pytest.mark.parametrize("changes", [{}, RELATIVE, ROTARY], ids=str)
@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.lists(st.integers(3, 10), min_size=1, max_size=7), min_size=1, max_size=4),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_output_does_not_depend_on_other_sentences_and_padding_length(
    changes: dict[str, object], sentences: list[list[int]], more_source: int, more_target: int
) -> None:
    model = build(**changes)
    source, _ = padded(sentences, max(map(len, sentences)) + more_source)
    target, _ = padded([[2, *reversed(sentence)] for sentence in sentences], max(map(len, sentences)) + 1 + more_target)
    together = model(source, None, target)
    for i, sentence in enumerate(sentences):
        alone = model(torch.tensor([sentence]), None, torch.tensor([[2, *reversed(sentence)]]))
        torch.testing.assert_close(together[i, : len(sentence) + 1], alone[0], rtol=0, atol=1e-11)
    after_padding = torch.nn.functional.pad(source, (2, 0), value=PAD)
    for mask in (after_padding != PAD, (after_padding != PAD).long()):
        torch.testing.assert_close(model(after_padding, mask, target), together, rtol=0, atol=1e-11)


@pytest.mark.parametrize("changes", OTHER_VARIANTS, ids=str)
def test_results_of_several_groups_and_filled_rows_equal_those_of_each(changes: dict[str, object]) -> None:
    model = build(**{**changes, "tied_embeddings": "all"})
    parts = ((SOURCES, TARGETS), (SOURCES[:1], TARGETS[1:2]), (SOURCES[1:], TARGETS[:-1]))
    groups = [(Sentences.of(sources), Sentences.of(targets)) for sources, targets in parts]
    weights = list(model.parameters())
    batches = [assemble([group]) for group in groups]
    alone, loss = (
        torch.cat([model.hidden_states(batch) for batch in batches]),
        sum(model.loss(batch)[0] for batch in batches),
    )
    expected = loss, *torch.autograd.grad(loss, weights)
    for more in ((3, 0), (0, 5), (10, 70)):  # fillers may have no rows on a side
        filled = assemble(groups, lambda source, target, more=more: (source + more[0], target + more[1]))
        together, (loss, _) = model.hidden_states(filled), model.loss(filled)
        assert len(together) == len(alone) + more[1]
        torch.testing.assert_close(together[: len(alone)], alone, rtol=0, atol=1e-12)
        for found, other in zip((loss, *torch.autograd.grad(loss, weights)), expected, strict=True):
            torch.testing.assert_close(found, other, rtol=0, atol=1e-4)  # losses are fp32


@torch.no_grad()
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_single_precision_equals_double_precision_to_rounding(changes: dict[str, object]) -> None:
    """Some CPUs use other kernels for single precision."""
    changes = {**changes, "tied_embeddings": "all"}
    exact, rounded = (build(double=double, **changes) for double in (True, False))
    rounded.compute_with(kernels_for(torch.device("cpu")))
    (source, _), (target, _) = padded(SOURCES), padded(TARGETS)
    torch.testing.assert_close(rounded(source, None, target), exact(source, None, target).float(), rtol=0, atol=1e-4)


# the decoder's cache

STEPPED: list[dict[str, object]] = [
    {},
    {"norm": "post", "activation": "swiglu"},
    RELATIVE,
    ROTARY,
    {"attention_score": "additive"},
]


@torch.no_grad()
@pytest.mark.parametrize("changes", STEPPED, ids=str)
@settings(max_examples=18, deadline=None)
@given(st.data())
def test_steps_equal_decode(changes: dict[str, object], data: st.DataObject) -> None:
    """A hypothesis continues any of its sentence, some places have none, and sentences take the slots of others."""
    model, beam, slots, positions = build(**changes), data.draw(st.integers(1, 3)), 2, 7
    sources = [Rows.of([ids]) for ids in SOURCES]
    memories, keys_values = list(map(model.encode, sources)), list(map(model.encode_keys_values, sources))
    ancestors = torch.zeros(slots, beam, positions, dtype=torch.int32)
    places = Places(torch.arange(0), torch.zeros(slots, dtype=torch.long), ancestors, beam, positions)
    cache = DecoderCache.empty(keys_values[0][0], len(keys_values[0]), max(map(len, SOURCES)), places)
    for cells in (*cache.source, *cache.target):
        cells.fill_(torch.nan)  # what is not written must not be read
    sentences, active = [0] * slots, [set[int]()] * slots
    prefixes: list[list[list[int]]] = [[]] * slots  # of each slot and place
    for _ in range(data.draw(st.integers(1, 12))):
        for slot in range(slots):
            if not active[slot] or places.lengths[slot] == positions or data.draw(st.integers(0, 4)) == 0:
                number, prefixes[slot], parents = data.draw(st.integers(0, 2)), [[]] * beam, list(range(beam))
                cache.load(
                    torch.tensor([slot]), sources[number], torch.tensor([len(SOURCES[number])]), keys_values[number]
                )
                sentences[slot], places.lengths[slot] = number, 0
            else:
                parents = data.draw(st.lists(st.sampled_from(sorted(active[slot])), min_size=beam, max_size=beam))
            prefixes[slot] = [[*prefixes[slot][parent], data.draw(st.integers(2, 10))] for parent in parents]
            ancestors[slot] = ancestors[slot, parents]
            ancestors[slot, :, places.lengths[slot]] = torch.arange(beam, dtype=torch.int32)
            places.lengths[slot] += 1
            active[slot] = data.draw(st.sets(st.integers(0, beam - 1)))
        rows = [(slot, place) for slot in range(slots) for place in sorted(active[slot])]
        if not rows:
            continue
        places.rows = torch.tensor([slot * beam + place for slot, place in rows])
        places.longest = data.draw(st.sampled_from([int(places.lengths.max()), positions]))
        newest = torch.full((slots, beam), -1)  # those of other places must not be read
        for slot, place in rows:
            newest[slot, place] = prefixes[slot][place][-1]
        found = model.logits(model.decode_step(newest, cache))
        targets, numbers = [prefixes[slot][place] for slot, place in rows], [sentences[slot] for slot, _ in rows]
        memory, of_rows = torch.cat([memories[n] for n in numbers]), Rows.of([SOURCES[n] for n in numbers])
        hidden = model.decode(Rows.of(targets), memory, of_rows)[torch.tensor([*map(len, targets)]).cumsum(0) - 1]
        torch.testing.assert_close(found, model.logits(hidden), rtol=0, atol=1e-11)


# weights


@pytest.mark.parametrize("tied", ["all", "none"])
@pytest.mark.parametrize("changes", [{}, {"positions": "relative"}])
def test_initial_weights_have_the_documented_distribution(tied: str, changes: dict[str, object]) -> None:
    torch.manual_seed(4)
    dim, inner, vocabulary = 64, 256, 500
    shape = {"encoder_layers": 1, "decoder_layers": 1, "dim": dim, "feed_forward": inner, "heads": 4}
    chosen = ModelSettings.model_validate({**shape, "tied_embeddings": tied, **changes})
    model = Transformer(chosen, vocabulary, vocabulary)
    for name, tensor in model.named_parameters():
        if "tokens" in name or name == "output.weight":
            assert not tensor[vocabulary:].any()
            tensor = tensor[:vocabulary]
            assert tensor.std().item() == pytest.approx(dim**-0.5, rel=0.03)
            assert abs(tensor.mean().item()) < 0.01
        elif name.endswith("bias"):
            assert not tensor.any()
        elif name.endswith("_vectors"):
            assert tensor.std().item() == pytest.approx((dim / 4) ** -0.5, rel=0.1)
        elif "norm" in name:
            assert torch.equal(tensor, torch.ones(dim))
        else:
            rows = dim if "key_value" in name else tensor.size(0)
            for block in tensor.split(rows):
                bound = math.sqrt(6 / (block.size(0) + block.size(1)))
                assert block.abs().max().item() <= bound
                assert block.abs().max().item() > 0.98 * bound
                assert block.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    ids = torch.randint(0, vocabulary, (50, 20))
    model.eval()
    with torch.no_grad():
        assert (model.target_embedding.tokens(ids) * model.target_embedding.scale).std().item() == pytest.approx(
            1, rel=0.05
        )
