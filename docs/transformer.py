# %% [markdown]
# # The Transformer, from the paper to translations
#
# "Attention Is All You Need" (Vaswani et al. 2017) in one file: the model, its loss and learning rate, training, greedy
# and beam search, in the order and with the names of the paper. It uses nothing of `nmt`; the tests of `nmt` compare
# its fast implementation with this one. Run it from top to bottom as a script, `python docs/transformer.py`, or open it
# as a notebook (Jupytext, VS Code): it trains an English→Italian model on the texts in `data/demo` in a few minutes.
#
# B sentences, S source length, T target length, V size of the vocabulary, and the sizes of the paper under short names:
# D is its d_model, F its d_ff, H its h (heads), d = D/H its d_k and d_v.

# %%
import io
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import sacrebleu
import sentencepiece
import torch
from torch import Tensor, nn

PAD, UNK, BOS, EOS = 0, 1, 2, 3  # ids of the special pieces <pad>, <unk>, <s>, </s>
Pair = tuple[list[int], list[int]]  # ids of a source and of a target, both without special pieces


@dataclass
class Settings:
    """Sizes of a small model, in comments those of the base model of the paper."""

    layers: int = 2  # N = 6, of the encoder and of the decoder
    dim: int = 128  # D = 512
    heads: int = 4  # H = 8
    feed_forward: int = 512  # F = 2,048
    dropout: float = 0.1
    norm: str = "post"  # "pre" normalizes before each sublayer, which came after the paper


# %% [markdown]
# ## 3.2.1 Scaled dot-product attention
# Each query is compared with all keys. The softmax of these scores is how much of each value goes into the result.


# %%
def attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor) -> Tensor:
    """Return softmax(Q K^T / sqrt(d)) V, (B, H, T, d), for Q (B, H, T, d), K and V (B, H, S, d).

    The mask (B, 1, T or 1, S) is True at keys that a query attends to.
    """
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))  # (B, H, T, S)
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)  # (B, H, T, S), each row adds up to 1
    return weights @ V


# %% [markdown]
# ## 3.2.2 Multi-head attention
# H attentions side by side, each between projections of its own, d = D/H wide.


# %%
class MultiHeadAttention(nn.Module):
    """Attention of several heads from x (B, T, D) to memory (B, S, D); both are the same in self-attention."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.heads, D = settings.heads, settings.dim
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Return Concat(head_1, …, head_H) W_O, (B, T, D)."""
        Q, K, V = self.split(self.W_Q(x)), self.split(self.W_K(memory)), self.split(self.W_V(memory))
        heads = attention(Q, K, V, mask)  # (B, H, T, d)
        return self.W_O(heads.transpose(1, 2).flatten(2))

    def split(self, x: Tensor) -> Tensor:
        """Cut the width (B, T, D) into heads, (B, H, T, d)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


# %% [markdown]
# ## 3.2.3 Masks
# Sentences of a batch are filled to the same length: no query attends to padding. A target token attends to itself and
# to those before it, so that all positions of a sentence can be trained at once, without a look at the answer.


# %%
def padding_mask(ids: Tensor) -> Tensor:
    """Return (B, 1, 1, S), True at tokens and False at padding."""
    return (ids != PAD)[:, None, None, :]


def causal_mask(length: int) -> Tensor:
    """Return (T, T), True on the diagonal and below it."""
    return torch.ones(length, length, dtype=torch.bool).tril()


# %% [markdown]
# ## 3.3 Position-wise feed-forward networks


# %%
class FeedForward(nn.Module):
    """Two linear maps with a ReLU between them, of each position by itself."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.W_1 = nn.Linear(settings.dim, settings.feed_forward)
        self.W_2 = nn.Linear(settings.feed_forward, settings.dim)

    def forward(self, x: Tensor) -> Tensor:
        """Return max(0, x W_1 + b_1) W_2 + b_2, (B, T, D)."""
        return self.W_2(self.W_1(x).relu())


# %% [markdown]
# ## 3.1 Encoder and decoder stacks
# Every sublayer has a residual connection around it and a layer normalization behind it: LayerNorm(x + Sublayer(x)).


# %%
class Residual(nn.Module):
    """A sublayer's residual connection, normalization and dropout (sections 3.1 and 5.4)."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.pre, self.norm = settings.norm == "pre", nn.LayerNorm(settings.dim)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return LayerNorm(x + Sublayer(x)) with post-norm, x + Sublayer(LayerNorm(x)) with pre-norm; (B, T, D)."""
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    """Self-attention of the source, then the feed-forward network."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.self_attention, self.feed_forward = MultiHeadAttention(settings), FeedForward(settings)
        self.residuals = nn.ModuleList(Residual(settings) for _ in range(2))

    def forward(self, x: Tensor, source_mask: Tensor) -> Tensor:
        """Map (B, S, D) to (B, S, D)."""
        x = self.residuals[0](x, lambda x: self.self_attention(x, x, source_mask))
        return self.residuals[1](x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention of the target, attention to the source, then the feed-forward network."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.self_attention, self.cross_attention = MultiHeadAttention(settings), MultiHeadAttention(settings)
        self.feed_forward = FeedForward(settings)
        self.residuals = nn.ModuleList(Residual(settings) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, source_mask: Tensor, target_mask: Tensor) -> Tensor:
        """Map (B, T, D) to (B, T, D); memory is (B, S, D)."""
        x = self.residuals[0](x, lambda x: self.self_attention(x, x, target_mask))
        x = self.residuals[1](x, lambda x: self.cross_attention(x, memory, source_mask))
        return self.residuals[2](x, self.feed_forward)


# %% [markdown]
# ## 3.5 Positional encoding
# Attention does not depend on the order of tokens. So a vector of sines and cosines is added to each embedding.


# %%
def positional_encoding(length: int, dim: int) -> Tensor:
    """Return (T, D): sin(pos / 10000^(2i/D)) in column 2i, the cosine in column 2i + 1."""
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)  # (T, 1)
    angle = position / 10000 ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)  # (T, D/2)
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)


# %% [markdown]
# ## 3.4 Embeddings and softmax
# One matrix serves as embeddings of the source, of the target, and before the softmax. Embeddings are multiplied by √D.


# %%
class Transformer(nn.Module):
    """Encoder and decoder over padded ids."""

    def __init__(self, settings: Settings, vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.embedding = nn.Embedding(vocabulary, settings.dim)
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.layers))
        self.decoder = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.layers))
        # pre-norm layers end without a norm, and the sum of their outputs grows with the depth
        last_norm = nn.LayerNorm if settings.norm == "pre" else nn.Identity
        self.encoder_norm, self.decoder_norm = last_norm(settings.dim), last_norm(settings.dim)
        self.dropout = nn.Dropout(settings.dropout)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.embedding.weight, std=settings.dim**-0.5)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the logits (B, T, V) of the token after each prefix of the target, which begins with `<s>`."""
        return self.decode(target, self.encode(source), padding_mask(source))

    def encode(self, source: Tensor) -> Tensor:
        """Map source ids (B, S) to memory (B, S, D)."""
        x, mask = self.embed(source), padding_mask(source)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x)

    def decode(self, target: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Map target ids (B, T) and memory (B, S, D) to logits (B, T, V)."""
        x, mask = self.embed(target), padding_mask(target) & causal_mask(target.size(1))
        for layer in self.decoder:
            x = layer(x, memory, source_mask, mask)
        return self.decoder_norm(x) @ self.embedding.weight.T

    def embed(self, ids: Tensor) -> Tensor:
        """Map ids (B, T) to vectors (B, T, D)."""
        x = self.embedding(ids) * math.sqrt(self.settings.dim)
        return self.dropout(x + positional_encoding(ids.size(1), self.settings.dim).to(x))


# %% [markdown]
# ## 5.4 Label smoothing
# The target distribution gives 1 − ε to the reference token and shares ε among all others but padding.


# %%
def smoothed_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.1) -> Tensor:
    """Return the sum of the cross-entropies -Σ q log p in nats, for logits (N, V) and labels (N) without padding."""
    log_p = logits.log_softmax(dim=-1)
    q = torch.full_like(log_p, smoothing / (logits.size(-1) - 2))
    q[:, PAD] = 0
    q.scatter_(1, labels.unsqueeze(1), 1 - smoothing)
    return -(q * log_p).sum()


# %% [markdown]
# ## 5.3 Optimizer
# Adam, with a learning rate that rises linearly during the warm-up and then falls with its inverse square root.


# %%
def learning_rate(step: int, dim: int, warmup: int) -> float:
    """Return D^-0.5 min(step^-0.5, step warmup^-1.5), for steps from 1."""
    return dim**-0.5 * min(step**-0.5, step * warmup**-1.5)


# %% [markdown]
# ## 5.1 Training data and batching
# Sentences of similar length form a batch, so that little of it is padding; its size is a number of tokens.


# %%
def padded(sentences: Sequence[list[int]]) -> Tensor:
    """Return ids (B, S), filled with padding."""
    longest = max(map(len, sentences))
    return torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in sentences])


def batches(pairs: Sequence[Pair], tokens: int) -> Iterator[list[Pair]]:
    """Yield batches whose padded targets have at most so many tokens, epoch after epoch in other random orders."""
    while True:
        shuffled = random.sample(pairs, len(pairs))  # sorting keeps this order among pairs of the same lengths
        groups: list[list[Pair]] = [[]]
        for source, target in sorted(shuffled, key=lambda pair: (len(pair[1]), len(pair[0]))):
            if (len(groups[-1]) + 1) * (len(target) + 1) > tokens:  # this target, with `</s>`, is the longest so far
                groups.append([])
            groups[-1].append((source, target))
        yield from random.sample(groups, len(groups))


# %%
def train(model: Transformer, pairs: Sequence[Pair], updates: int, warmup: int, tokens: int = 1500) -> None:
    """Train with Adam and teacher forcing: the decoder reads the reference, shifted to the right by `<s>`."""
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    started = time.perf_counter()
    model.train()
    for step, batch in zip(range(1, updates + 1), batches(pairs, tokens), strict=False):
        source = padded([[*source, EOS] for source, _ in batch])  # (B, S)
        target = padded([[BOS, *target] for _, target in batch])  # (B, T)
        labels = padded([[*target, EOS] for _, target in batch])  # (B, T), at each position the next token
        is_token = labels != PAD
        logits = model(source, target)  # (B, T, V)
        loss = smoothed_loss(logits[is_token], labels[is_token]) / is_token.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = learning_rate(step, model.settings.dim, warmup)
        optimizer.step()
        if step % 100 == 0 or step == updates:
            print(f"step {step:5}  loss {loss.item():.3f}  {time.perf_counter() - started:.0f} s")


# %% [markdown]
# ## Greedy search
# The decoder begins with `<s>`; the most probable next token is appended until it is `</s>`.


# %%
@torch.no_grad()
def greedy_search(model: Transformer, source: Tensor, longest: int) -> list[list[int]]:
    """Return the translations of source ids (B, S), of at most `longest` tokens, without special pieces."""
    model.eval()
    memory, target = model.encode(source), torch.full((len(source), 1), BOS)
    has_ended = torch.zeros(len(source), dtype=torch.bool)
    while not has_ended.all() and target.size(1) <= longest:
        next_token = model.decode(target, memory, padding_mask(source))[:, -1].argmax(dim=-1)  # (B)
        target = torch.cat([target, next_token.masked_fill(has_ended, PAD).unsqueeze(1)], dim=1)
        has_ended |= next_token == EOS
    return [[token for token in ids if token > EOS] for ids in target.tolist()]


# %% [markdown]
# ## 6.1 Beam search
# In place of one translation, the K most probable prefixes are extended. Longer translations are less probable, so
# log-probabilities are divided by a length penalty (Wu et al. 2016).


# %%
def length_penalty(length: int, alpha: float) -> float:
    """Return ((5 + L) / 6)^α for a hypothesis of L tokens with `</s>`."""
    return ((5 + length) / 6) ** alpha


@torch.no_grad()
def beam_search(model: Transformer, source: Tensor, beam: int, longest: int, alpha: float = 0.6) -> list[int]:
    """Return the best translation of the ids (1, S) of one sentence, of at most `longest` tokens with `</s>`.

    Prefixes and their log-probabilities are sorted, the best first; K is `beam`, after the first step.
    """
    model.eval()
    memory, mask = model.encode(source), padding_mask(source)
    prefixes, totals = torch.tensor([[BOS]]), memory.new_zeros(1)  # (K, T), (K)
    finished: list[tuple[float, list[int]]] = []  # translations with their scores
    for length in range(1, longest + 1):
        log_p = model.decode(prefixes, memory.expand(len(prefixes), -1, -1), mask)[:, -1].log_softmax(dim=-1)  # (K, V)
        log_p[:, [PAD, UNK, BOS]] = -math.inf  # never part of a translation
        if length == longest:
            log_p[:, EOS + 1 :] = -math.inf
        # of each prefix only one extension ends, so among the best 2K are K that do not
        totals, places = (totals.unsqueeze(1) + log_p).flatten().topk(2 * beam)
        rows, tokens = places // log_p.size(1), places % log_p.size(1)
        prefixes = torch.cat([prefixes[rows], tokens.unsqueeze(1)], dim=1)  # (2K, T + 1)
        for total, ids in zip(totals[:beam].tolist(), prefixes[:beam].tolist(), strict=True):
            if ids[-1] == EOS:
                finished.append((total / length_penalty(length, alpha), ids[1:-1]))
        prefixes, totals = prefixes[tokens != EOS][:beam], totals[tokens != EOS][:beam]
        # log-probabilities only fall: can a prefix still become better than the best translation?
        if finished and totals[0] / length_penalty(longest, alpha) <= max(finished)[0]:
            break
    return max(finished)[1]


# %% [markdown]
# ## Training and translating
# The text is split into the pieces of a vocabulary that both languages share (byte-pair encoding, as in the paper).


# %%
def read_pairs(file: Path) -> list[tuple[str, str]]:
    """Return the English and Italian sentences of a file with one pair a line, separated by tabs."""
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    return [(row[0], row[1]) for row in rows]


def train_tokenizer(texts: Sequence[tuple[str, str]], size: int) -> sentencepiece.SentencePieceProcessor:
    """Return a tokenizer of both sides of the text."""
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([sentence for pair in texts for sentence in pair]),
        model_writer=stream, model_type="bpe", vocab_size=size, minloglevel=2,
        pad_id=PAD, unk_id=UNK, bos_id=BOS, eos_id=EOS,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue())


# %%
def main(data: Path, updates: int = 1200) -> float:
    """Train on the demonstration text, translate its test text, and return the BLEU of beam search."""
    torch.manual_seed(1)
    random.seed(1)
    texts, test = read_pairs(data / "train.tsv"), read_pairs(data / "test.tsv")
    tokenizer = train_tokenizer(texts, size=2000)
    model = Transformer(Settings(), len(tokenizer))
    print(f"{sum(weight.numel() for weight in model.parameters()):,} weights")
    train(model, [tuple(tokenizer.encode(list(pair))) for pair in texts], updates, warmup=400)

    sources, references = [[*tokenizer.encode(source), EOS] for source, _ in test], [target for _, target in test]
    greedy = tokenizer.decode(greedy_search(model, padded(sources), longest=50))
    best = tokenizer.decode([beam_search(model, torch.tensor([ids]), beam=4, longest=50) for ids in sources])
    bleu = [sacrebleu.corpus_bleu(translations, [references]).score for translations in (greedy, best)]
    print(f"BLEU of the test text: {bleu[0]:.2f} by greedy search, {bleu[1]:.2f} with a beam of 4")
    for (source, _), translation in zip(test[:5], best[:5], strict=True):
        print(f"{source}\n    {translation}")
    return bleu[1]


if __name__ == "__main__":  # also in a notebook, whose folder is docs/
    main(Path("data/demo" if Path("data/demo").is_dir() else "../data/demo"))
