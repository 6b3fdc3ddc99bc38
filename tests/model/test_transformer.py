"""The Transformer against torch.nn, against a reference implementation of the papers, and by its invariants.

B sentences, S source length, T target length, D width, H heads, K beam, V vocabulary.
"""

import itertools
import math
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from nmt.config import ModelSettings
from nmt.model.attention import CrossAttention
from nmt.model.cache import DecoderCache
from nmt.model.packing import Packing
from nmt.model.positions import sinusoids
from nmt.model.transformer import Transformer
from tests.model.reference_transformer import MAX_DISTANCE, ReferenceTransformer

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


def hidden_states(model: Transformer, source: Tensor, mask: Tensor | None, target: Tensor) -> Tensor:
    """Return the hidden states (B, T, D) of a batch of one length group."""
    return model([source], [mask], [target]).view(*target.shape, -1)


def reference_of(model: Transformer) -> ReferenceTransformer:
    """Return the reference Transformer with the weights of a model."""
    weights = {name: tensor.detach() for name, tensor in model.named_parameters(remove_duplicate=False)}
    weights["output.weight"] = weights["output.weight"][: model.output.out_features]  # without padding
    return ReferenceTransformer(model.settings, weights)


@pytest.fixture
def short_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let relative positions clip distances at 2, as the reference does."""
    monkeypatch.setattr("nmt.model.positions.MAX_DISTANCE", MAX_DISTANCE)


# torch.nn.Transformer


class TorchTransformer(nn.Module):
    """Encoder and decoder of torch.nn with the weights of our model."""

    def __init__(self, ours: Transformer) -> None:
        super().__init__()
        chosen = ours.settings
        shape = (
            chosen.dim,
            chosen.heads,
            chosen.feed_forward,
            0.0,
            chosen.activation,
            1e-5,
            True,
            chosen.norm == "pre",
        )
        assert chosen.encoder_layers == chosen.decoder_layers
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(*shape) for _ in ours.encoder)
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(*shape) for _ in ours.decoder)
        pre = chosen.norm == "pre"
        self.encoder_norm = nn.LayerNorm(chosen.dim) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(chosen.dim) if pre else nn.Identity()
        self.double().load_state_dict(to_torch_names({name: p.detach() for name, p in ours.named_parameters()}))

    def forward(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        """Map embedded source (B, S, D) and target (B, T, D) to hidden states (B, T, D)."""
        for layer in self.encoder:
            source = layer(source, src_key_padding_mask=~mask)
        memory = self.encoder_norm(source)
        future = nn.Transformer.generate_square_subsequent_mask(target.size(1), dtype=torch.float64)
        for layer in self.decoder:
            target = layer(target, memory, tgt_mask=future, memory_key_padding_mask=~mask, tgt_is_causal=True)
        return self.decoder_norm(target)


def to_torch_names(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename weights or gradients of our model as torch.nn names them, which packs query, key and value projections."""
    simple = {
        "feed_forward.inner": "linear1",
        "feed_forward.outer": "linear2",
        "attention_sublayer.norm": "norm1",
        "self_attention_sublayer.norm": "norm1",
        "cross_attention_sublayer.norm": "norm2",
    }
    attention = {"attention": "self_attn", "self_attention": "self_attn", "cross_attention": "multihead_attn"}
    packed: dict[str, Tensor] = {}
    for name, tensor in ours.items():
        side, _, rest = name.partition(".")
        if side in ("encoder_norm", "decoder_norm"):
            packed[name] = tensor
        if side not in ("encoder", "decoder"):
            continue
        number, _, rest = rest.partition(".")
        module, _, kind = rest.rpartition(".")
        if module == "feed_forward_sublayer.norm":
            packed[f"{side}.{number}.norm{2 if side == 'encoder' else 3}.{kind}"] = tensor
        elif module in simple:
            packed[f"{side}.{number}.{simple[module]}.{kind}"] = tensor
        else:
            where, _, part = module.partition(".")
            at = f"{side}.{number}.{attention[where]}"
            if part == "output":
                packed[f"{at}.out_proj.{kind}"] = tensor
            elif part == "query":
                both = torch.cat([tensor, ours[f"{side}.{number}.{where}.key_value.{kind}"]])
                packed[f"{at}.in_proj_{kind}"] = both
            elif part == "query_key_value":
                packed[f"{at}.in_proj_{kind}"] = tensor
    return packed


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_outputs_and_gradients_equal_torch_transformer(norm: str, activation: str) -> None:
    ours = build(norm=norm, activation=activation, encoder_layers=2, decoder_layers=2, tied_embeddings="none")
    theirs = TorchTransformer(ours)
    source, mask = padded(SOURCES)
    target, target_mask = padded(TARGETS)
    embedded = {}

    def keep(name: str, output: Tensor) -> None:
        output.retain_grad()
        embedded[name] = output

    ours.source_embedding.register_forward_hook(lambda _module, _inputs, output: keep("source", output))
    ours.target_embedding.register_forward_hook(lambda _module, _inputs, output: keep("target", output))
    hidden = hidden_states(ours, source, mask, target)
    inputs = {
        name: embedded[name].detach().clone().view(*ids.shape, -1).requires_grad_()
        for name, ids in (("source", source), ("target", target))
    }
    reference = theirs(inputs["source"], mask, inputs["target"])
    torch.testing.assert_close(hidden[target_mask], reference[target_mask], rtol=0, atol=1e-12)

    direction = torch.randn_like(hidden) * target_mask.unsqueeze(2)
    hidden.backward(direction)
    reference.backward(direction)
    for name in ("source", "target"):
        expected = inputs[name].grad.flatten(0, 1)
        torch.testing.assert_close(embedded[name].grad, expected, rtol=0, atol=1e-12)
    gradients = to_torch_names({name: p.grad for name, p in ours.named_parameters() if p.grad is not None})
    expected = dict(theirs.named_parameters())
    assert gradients.keys() == expected.keys()
    for name, parameter in expected.items():
        torch.testing.assert_close(
            gradients[name], parameter.grad, rtol=0, atol=1e-11, msg=lambda m, n=name: f"{n}: {m}"
        )


# reference implementation

RELATIVE: dict[str, object] = {"positions": "relative"}
ROTARY: dict[str, object] = {"positions": "rotary", "heads": 2}
VARIANTS: list[dict[str, object]] = [
    {"norm": norm, "activation": activation}
    for norm, activation in itertools.product(["pre", "post"], ["relu", "gelu", "swiglu"])
]
VARIANTS += [
    {"positions": positions, "normalization": normalization, "norm": norm, "heads": 2}
    for positions, normalization, norm in itertools.product(
        ["sinusoidal", "relative", "rotary"], ["layer", "rms"], ["pre", "post"]
    )
]
VARIANTS += [
    {"tied_embeddings": "target"},
    {"tied_embeddings": "none", "heads": 1},
    {"attention_score": "dot"},
    {"attention_score": "bilinear", "norm": "post"},
    {"attention_score": "additive"},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.usefixtures("short_distances")
@torch.no_grad()
def test_outputs_equal_the_reference_transformer(changes: dict[str, object]) -> None:
    tied = changes.get("tied_embeddings", "all") == "all"
    model = build(source_vocabulary=11 if tied else 14, **changes)
    reference = reference_of(model)
    source, mask = padded(SOURCES)
    target, _ = padded(TARGETS)
    memory = model.encode(source, mask)
    logits = model.logits(model.decode(target, memory, mask))[..., :11]
    for i, (source_ids, target_ids) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected_memory = reference.encode(source_ids)
        expected = reference.decode(target_ids, expected_memory)
        torch.testing.assert_close(memory[i, : len(source_ids)], expected_memory, rtol=0, atol=1e-11)
        torch.testing.assert_close(logits[i, : len(target_ids)], expected, rtol=0, atol=1e-11)


@torch.no_grad()
def test_cross_weights_times_values_equal_a_step() -> None:
    torch.manual_seed(2)
    attention = CrossAttention(ModelSettings(dim=12, heads=3)).double()
    x, memory = torch.randn(2, 1, 12, dtype=torch.float64), torch.randn(2, 5, 12, dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    keys, values = attention.project_memory(memory)
    packings = Packing.of([x]), Packing.of([memory], [mask])
    weights = attention.weights(x[:, 0], packings[0], memory.flatten(0, 1), packings[1])
    assert weights.shape == (2, 3, 1, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 1, dtype=torch.float64))
    assert not weights[1, :, :, 3:].any()
    mixed = attention.output((weights @ values).transpose(1, 2).flatten(2))
    cache = DecoderCache([(keys, values)], mask)
    torch.testing.assert_close(mixed[:, 0], attention.step(cache.pad(x[:, 0]), 0, cache)[:2])


# positions


@pytest.mark.parametrize("dim", [2, 12, 512])
def test_sinusoids_equal_the_formula_of_the_paper(dim: int) -> None:
    vectors = sinusoids(1, 300, torch.empty(0, dim))
    assert vectors.shape == (299, dim)
    for place, column in itertools.product([1, 2, 17, 299], sorted({0, 1, dim // 2, dim - 2, dim - 1})):
        angle = place / 10000 ** ((column - column % 2) / dim)
        expected = math.sin(angle) if column % 2 == 0 else math.cos(angle)
        assert vectors[place - 1, column] == pytest.approx(expected, abs=1e-4)


@pytest.mark.usefixtures("short_distances")
@torch.no_grad()
@pytest.mark.parametrize("changes", [{}, RELATIVE, ROTARY], ids=str)
def test_positions_have_no_limit(changes: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.model.positions._SHORTEST_TABLE", 4)
    model = build(**changes)
    reference = reference_of(model)
    source = [3 + i % 8 for i in range(20)]
    memory = reference.encode(source)
    torch.testing.assert_close(model.encode(torch.tensor([source]), None)[0], memory, rtol=0, atol=1e-11)
    logits = model.logits(model.decode(torch.tensor([source]), memory.unsqueeze(0), None))[0, :, :11]
    torch.testing.assert_close(logits, reference.decode(source, memory), rtol=0, atol=1e-11)


# invariants

KINDS: list[dict[str, object]] = [{}, {"norm": "post"}, RELATIVE, ROTARY]


@torch.no_grad()
@pytest.mark.parametrize("changes", KINDS, ids=str)
def test_decoder_is_causal(changes: dict[str, object]) -> None:
    model = build(**changes)
    source, mask = padded([SOURCES[0]])
    target = torch.tensor([[2, 5, 6, 7, 8, 9]])
    before = hidden_states(model, source, mask, target)
    for changed in range(1, 6):
        other = target.clone()
        other[0, changed] = 10
        after = hidden_states(model, source, mask, other)
        assert torch.equal(after[0, :changed], before[0, :changed])
        assert not torch.allclose(after[0, changed], before[0, changed])


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
    source, mask = padded(sentences, max(map(len, sentences)) + more_source)
    target, _ = padded([[2, *reversed(sentence)] for sentence in sentences], max(map(len, sentences)) + 1 + more_target)
    together = hidden_states(model, source, mask, target)
    for i, sentence in enumerate(sentences):
        alone = hidden_states(model, torch.tensor([sentence]), None, torch.tensor([[2, *reversed(sentence)]]))
        torch.testing.assert_close(together[i, : len(sentence) + 1], alone[0], rtol=0, atol=1e-11)


@torch.no_grad()
@pytest.mark.parametrize("changes", KINDS, ids=str)
def test_output_does_not_depend_on_padding_ids(changes: dict[str, object]) -> None:
    model = build(**changes)
    source, mask = padded(SOURCES)
    target, target_mask = padded(TARGETS)
    other = torch.where(mask, source, 10)
    before, after = (hidden_states(model, ids, mask, target) for ids in (source, other))
    torch.testing.assert_close(after[target_mask], before[target_mask])


@torch.no_grad()
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_forward_of_several_groups_equals_forward_of_each(changes: dict[str, object]) -> None:
    model = build(**{**changes, "tied_embeddings": "all"})
    sources, masks = zip(*(padded(part) for part in (SOURCES, [SOURCES[0]], SOURCES[1:])), strict=True)
    targets = [padded(part)[0] for part in (TARGETS, [TARGETS[1]], TARGETS[:-1])]
    together = model(sources, masks, targets)
    alone = [model([source], [mask], [target]) for source, mask, target in zip(sources, masks, targets, strict=True)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_single_precision_equals_double_precision_to_rounding(changes: dict[str, object]) -> None:
    """Some CPUs use other kernels for single precision."""
    changes = {**changes, "tied_embeddings": "all"}
    (source, mask), (target, _) = padded(SOURCES), padded(TARGETS)
    exact = hidden_states(build(**changes), source, mask, target)
    rounded = hidden_states(build(double=False, **changes), source, mask, target)
    torch.testing.assert_close(rounded, exact.float(), rtol=0, atol=1e-4)


# the decoder's cache


@torch.no_grad()
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "post"},
        {"activation": "swiglu"},
        RELATIVE,
        {**ROTARY, "normalization": "rms"},
        {"attention_score": "additive"},
    ],
    ids=str,
)
def test_step_equals_decode(changes: dict[str, object]) -> None:
    """With 40 tokens the cache grows more than once."""
    model = build(**changes)
    source, mask = padded(SOURCES)
    beam, length = 2, 40
    torch.manual_seed(3)
    tokens = torch.randint(3, 11, (len(SOURCES), beam, length))
    memory = model.encode(source, mask)
    steps = model.start(source, mask)
    steps.select(torch.arange(len(SOURCES)).repeat_interleave(beam))
    for t in range(length):
        logits = steps.step(tokens[:, :, t].flatten()).view(len(SOURCES), beam, -1)
        assert logits.shape == (len(SOURCES), beam, 64)
        if t in (0, 1, 15, 16, 17, 32, 39):
            for k in range(beam):
                hidden = model.decode(tokens[:, k, : t + 1], memory, mask)
                torch.testing.assert_close(logits[:, k], model.logits(hidden[:, -1]), rtol=0, atol=1e-11)


@torch.no_grad()
@pytest.mark.parametrize("changes", [{}, RELATIVE, ROTARY], ids=str)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_step_after_select_equals_decode(changes: dict[str, object], data: st.DataObject) -> None:
    """A sentence has 0 to K rows, in any order; one without rows is finished. Tables are soon full."""
    model, beam = build(**changes), data.draw(st.integers(1, 3))
    limits = {"_SPARE_STEPS": data.draw(st.integers(1, 3)), "_REMOVE_SHARE": data.draw(st.integers(1, 8))}
    source, mask = padded(SOURCES)
    memory = model.encode(source, mask)
    steps = model.start(source, mask)
    rows: list[tuple[int, list[int]]] = [(sentence, []) for sentence in range(len(SOURCES))]
    for _ in range(data.draw(st.integers(1, 9))):
        new = data.draw(st.lists(st.integers(2, 10), min_size=len(rows), max_size=len(rows)))
        with mock.patch.multiple("nmt.model.cache", **limits):
            logits = steps.step(torch.tensor(new))
        rows = [(sentence, [*prefix, token]) for (sentence, prefix), token in zip(rows, new, strict=True)]
        for row_logits, (sentence, prefix) in zip(logits, rows, strict=True):
            one = slice(sentence, sentence + 1)
            hidden = model.decode(torch.tensor([prefix]), memory[one], mask[one])
            torch.testing.assert_close(row_logits, model.logits(hidden)[0, -1], rtol=0, atol=1e-11)
        chosen: list[int] = []
        for sentence in sorted({sentence for sentence, _ in rows}):
            own = [row for row, (owner, _) in enumerate(rows) if owner == sentence]
            chosen += data.draw(st.lists(st.sampled_from(own), max_size=beam))
        if not chosen:
            return
        steps.select(torch.tensor(chosen))
        rows = [rows[row] for row in chosen]


@torch.no_grad()
def test_step_of_many_rows_equals_teacher_forcing() -> None:
    model = build()
    source = torch.randint(4, 10, (150, 5))
    logits = model.start(source, None).step(torch.full((150,), 2))
    hidden = model.decode(torch.full((150, 1), 2), model.encode(source, None), None)
    torch.testing.assert_close(logits, model.logits(hidden)[:, 0], rtol=0, atol=1e-11)


# weights


def test_tied_embeddings_are_one_parameter() -> None:
    tied = build(tied_embeddings="all")
    assert tied.source_embedding.tokens.weight is tied.target_embedding.tokens.weight is tied.output.weight
    half = build(tied_embeddings="target", source_vocabulary=14)
    assert half.target_embedding.tokens.weight is half.output.weight
    assert half.source_embedding.tokens.num_embeddings == 14
    free = build(tied_embeddings="none")
    matrices = (free.source_embedding.tokens.weight, free.target_embedding.tokens.weight, free.output.weight)
    assert len({matrix.data_ptr() for matrix in matrices}) == 3
    source, mask = padded(SOURCES)
    target, _ = padded(TARGETS)
    tied.logits(tied([source], [mask], [target])).sum().backward()
    names = [name for name, _ in tied.named_parameters()]
    assert sum("tokens" in name or name == "output.weight" for name in names) == 1
    assert tied.output.weight.grad is not None
    with torch.no_grad():
        tied.output.weight[7] += 1
    assert torch.equal(tied.source_embedding.tokens.weight[7], tied.output.weight[7])


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_parameter_count_equals_the_formula(norm: str, activation: str, tied: str) -> None:
    d, f, n, m, source = 12, 20, 2, 3, 17 if tied != "all" else 11
    model = build(norm=norm, activation=activation, tied_embeddings=tied, source_vocabulary=source)
    attention = 4 * (d * d + d)
    inner = 2 * f if activation == "swiglu" else f
    feed_forward = d * inner + inner + f * d + d
    layer_norm = 2 * d
    expected = n * (attention + feed_forward + 2 * layer_norm) + m * (2 * attention + feed_forward + 3 * layer_norm)
    expected += 2 * layer_norm if norm == "pre" else 0
    expected += (
        d * {"all": 64, "target": 64 + 64, "none": 3 * 64}[tied]
    )  # the rows of a vocabulary are a multiple of 64
    assert model.parameter_count() == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"normalization": "rms", "activation": "swiglu", "tied_embeddings": "target"},
        {"positions": "relative", "norm": "post", "tied_embeddings": "none"},
        {"attention_score": "bilinear"},
        {"attention_score": "additive"},
    ],
    ids=str,
)
def test_weight_count_of_settings_equals_parameter_count(changes: dict[str, object]) -> None:
    model = build(source_vocabulary=11 if "tied_embeddings" not in changes else 17, **changes)
    source = model.source_embedding.tokens.num_embeddings
    assert model.settings.weight_count(source, 11) == model.parameter_count()


def test_parameter_count_of_other_variants_equals_the_formula() -> None:
    plain = build(heads=2).parameter_count()
    assert build(**ROTARY).parameter_count() == plain
    # two vectors of width 6 for each of -16 … 16 in an encoder layer, of -16 … 0 in a decoder layer
    assert build(heads=2, positions="relative").parameter_count() == plain + 2 * 6 * (2 * 33 + 3 * 17)
    # a matrix or a vector for each head of 2 · 1 + 3 · 2 attentions
    assert build(heads=2, attention_score="dot").parameter_count() == plain
    assert build(heads=2, attention_score="bilinear").parameter_count() == plain + 8 * 2 * 6 * 6
    assert build(heads=2, attention_score="additive").parameter_count() == plain + 8 * 2 * 6
    # no biases: two norms an encoder layer, three a decoder layer, one at each end
    assert build(heads=2, normalization="rms").parameter_count() == plain - 12 * (2 * 2 + 3 * 3 + 2)


@pytest.mark.parametrize("tied", ["all", "none"])
@pytest.mark.parametrize("changes", [{}, {"positions": "relative"}, {"normalization": "rms"}])
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


@pytest.mark.parametrize(
    "changes",
    [
        RELATIVE,
        {**ROTARY, "normalization": "rms"},
        {"attention_score": "bilinear"},
        {"attention_score": "additive"},
    ],
    ids=str,
)
def test_every_weight_has_a_nonzero_gradient(changes: dict[str, object]) -> None:
    model = build(tied_embeddings="none", **changes)
    source, mask = padded(SOURCES)
    target, _ = padded(TARGETS)
    model.logits(hidden_states(model, source, mask, target))[..., :11].pow(2).sum().backward()
    without_gradient = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without_gradient == []
