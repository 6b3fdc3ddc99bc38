"""Attention by plain products against torch's own in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from nmt.config import ModelSettings
from nmt.model.attention import MultiHeadAttention
from nmt.model.cpu.short_attention import MAX_LENGTH, packed_attention, step_attention
from nmt.model.packing import Packing

HEADS, DIM = 3, 12
GROUP = st.tuples(st.integers(1, 4), st.integers(1, 7), st.integers(1, 7))


def by_torch(
    queries: Tensor, memory: Tensor, packings: tuple[Packing, Packing], lengths: list[Tensor], causal: bool
) -> Tensor:
    """Attend within one sentence at a time, without padding."""
    to, of = packings
    found = []
    for query, key_value, count in zip(to.unpack(queries), of.unpack(memory), lengths, strict=True):
        for sentence, both, length in zip(query, key_value, count.tolist(), strict=True):
            keys, values = both[:length].chunk(2, dim=-1)
            q, k, v = (x.view(len(x), HEADS, -1).transpose(0, 1) for x in (sentence, keys, values))
            found.append(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(0, 1).flatten(1))
    return torch.cat(found)


@settings(max_examples=50, deadline=None)
@given(st.lists(GROUP, min_size=1, max_size=3), st.booleans(), st.integers(0, 2**20))
def test_packed_attention_equals_torch_for_each_sentence(
    groups: list[tuple[int, int, int]], causal: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    if causal:
        groups = [(sentences, length, length) for sentences, length, _ in groups]
    to = Packing(tuple((b, t) for b, t, _ in groups), (None,) * len(groups))
    shapes = tuple((b, s) for b, _, s in groups)
    lengths = [torch.full((b,), s) if causal else torch.randint(1, s + 1, (b,)) for b, s in shapes]
    masks = [(torch.arange(s) < n[:, None])[:, None, None, :] for (_, s), n in zip(shapes, lengths, strict=True)]
    of = Packing(shapes, (None,) * len(groups) if causal else tuple(masks))
    queries = torch.randn(sum(b * t for b, t, _ in groups), DIM, requires_grad=True)
    memory = torch.randn(sum(b * s for b, s in shapes), 2 * DIM, requires_grad=True)
    doubles = [tensor.detach().double().requires_grad_() for tensor in (queries, memory)]
    found = packed_attention(queries, memory, (to, of), HEADS, causal)
    expected = by_torch(*doubles, (to, of), lengths, causal)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    direction = torch.randn_like(found)
    found.backward(direction)
    expected.backward(direction.double())
    for ours, theirs in zip((queries, memory), doubles, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [MAX_LENGTH, MAX_LENGTH + 1])
def test_sentences_around_the_maximum_length_get_the_same_output(length: int) -> None:
    torch.manual_seed(3)
    attention = MultiHeadAttention(ModelSettings(dim=DIM, heads=HEADS), "encoder")
    x = torch.randn(length, DIM)
    packing = Packing(((1, length),), (None,))
    expected = attention.double().self_attend(x.double(), packing, causal=True)
    torch.testing.assert_close(
        attention.float().self_attend(x, packing, causal=True).double(), expected, rtol=1e-4, atol=1e-5
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 20), st.booleans(), st.integers(0, 2**20))
def test_step_attention_equals_torch(sentences: int, queries: int, keys: int, masked: bool, seed: int) -> None:
    torch.manual_seed(seed)
    q, k, v = (torch.randn(sentences, HEADS, n, DIM // HEADS) for n in (queries, keys, keys))
    mask = torch.rand(sentences, 1, queries, keys) < 0.7 if masked else None
    if mask is not None:
        mask[..., 0] = True
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), mask)
    torch.testing.assert_close(step_attention(q, k, v, mask).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_packed_attention_in_bf16_equals_fp32_up_to_rounding(causal: bool) -> None:
    torch.manual_seed(5)
    packing = Packing([(3, 9), (2, 4)], [None, None])
    queries, memory = torch.randn(35, 2 * DIM), torch.randn(35, 4 * DIM)
    direction, results = torch.randn(35, 2 * DIM), []
    for dtype in (torch.float32, torch.bfloat16):
        q, kv = (tensor.to(dtype, copy=True).requires_grad_() for tensor in (queries, memory))
        output = packed_attention(q, kv, (packing, packing), HEADS, causal)
        output.backward(direction.to(dtype))
        assert output.dtype == q.grad.dtype == kv.grad.dtype == dtype
        results.append([output.float(), q.grad.float(), kv.grad.float()])
    for in_fp32, in_bf16 in zip(*results, strict=True):
        torch.testing.assert_close(in_bf16, in_fp32, rtol=0.05, atol=0.1)
