"""What decoding one position at a time remembers: keys and values of the source and of what has been said.

Each of N rows is one hypothesis that grows. The rows of a sentence stand together, at most K of them, in the order of
the B sentences. At first each row has a memory of its own, which is copied where hypotheses fork. To copy all that has
been said with every step is costly once that is long. Then each sentence gets one memory for all its rows: what any of
them has said, in common or alone. Nothing is copied any more; only which row descends from which token is noted.

S source length; G groups of Q rows that share a memory: N of one row, later B of K; P tokens in a group's memory;
D width, H heads, d = D/H.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

_WORTH_SHARING, _MOST_SHARING = 16, 8
"""Positions from which rows share a memory, and the widest beam: each row looks past what the others say alone."""
_ROOM = 16
"""Steps after which a shared memory is full, and what no row descends from any more is forgotten."""
_WORTH_LEAVING = 8
"""Sentences that are done with are let go of once they are one in so many: that costs a copy of the others."""


class LayerCache:
    """One decoder layer's memory."""

    def __init__(self, source_keys: Tensor, source_values: Tensor) -> None:
        """Remember keys and values of the source, (B, H, S, d) each; G is B at first."""
        # in the order in which every step will read them
        self.source_keys, self.source_values = source_keys.contiguous(), source_values.contiguous()
        sentences, heads, _, width = source_keys.shape
        self._said = source_keys.new_empty(0, sentences, heads, 2, width)  # (P and room for more, G, H, 2, d)

    def fork(self, parents: Tensor) -> None:
        """Let row i go on from what row parents[i] has said, with room for one more token."""
        said = self._said.new_empty(len(self._said) + 1, len(parents), *self._said.shape[2:])
        torch.index_select(self._said, 1, parents, out=said[:-1])
        self._said = said

    def write(self, keys_values: Tensor, place: int) -> None:
        """Write keys and values of one more token a row, (G, Q, 2D), from a place on."""
        groups, rows, _ = keys_values.shape
        by_head = keys_values.view(groups, rows, 2, *self._said.shape[2::2])  # (G, Q, 2, H, d)
        self._said[place : place + rows] = by_head.permute(1, 0, 3, 2, 4)

    def said(self, tokens: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of the first tokens (P, G, H, d) each."""
        keys, values = self._said[:tokens].unbind(3)
        return keys, values

    def share(self, parents: Tensor, slots: Tensor, beam: int) -> None:
        """Put what rows have said who go on from their parents (N) side by side, K slots a sentence: P is K times L."""
        tokens, _, *shape = self._said.shape
        sentences = self.source_keys.size(0)
        by_slot = self._said.new_zeros(tokens, sentences * beam, *shape)
        by_slot.index_copy_(1, slots, self._said.index_select(1, parents))
        self._said = by_slot.view(tokens, sentences, beam, *shape).transpose(1, 2).flatten(0, 1)

    def keep(self, tokens: Tensor, room: int) -> None:
        """Forget all tokens of each sentence but these, (P', B), and make room for so many more."""
        count, sentences, *shape = tokens.shape[0], *self._said.shape[1:]
        said = self._said.new_empty(count + room, sentences, *shape)
        places = (tokens * sentences + torch.arange(sentences, device=tokens.device)).flatten()
        torch.index_select(self._said.flatten(0, 1), 0, places, out=said[:count].flatten(0, 1))
        self._said = said

    def keep_sentences(self, sentences: Tensor, shared: bool) -> None:
        """Let go of the sources of all sentences but these (B'), and of what they share."""
        self.source_keys = self.source_keys.index_select(0, sentences)
        self.source_values = self.source_values.index_select(0, sentences)
        if shared:
            self._said = self._said.index_select(1, sentences)


@dataclass
class DecoderCache:
    """The memory of a batch of sentences, at first with one row each."""

    layers: Sequence[LayerCache]
    source_mask: Tensor | None
    """(B, 1, 1, S), True where a source token is; None if nothing is padded."""
    beam: int
    """K."""
    sentences: Tensor
    """(N), which of the B sentences each row is of."""
    slots: Tensor = field(init=False)
    """(N), each row's own place among the B·K that there might be; rows that are equal may share one."""
    parents: Tensor | None = field(init=False)
    """(N), the row that each one goes on from in its own memory, until the layers' next step; None when rows share."""
    positions: Tensor = field(init=False)
    """(1, P) or (G, P), where in its hypothesis each token stands that has been said."""
    hidden: Tensor | None = None
    """(B·K, P), False at the tokens that each slot's row descends from; None if rows share nothing."""
    length: int = 0
    """Positions so far."""
    _room: int = 0

    def __post_init__(self) -> None:
        self.slots = self.sentences * self.beam
        self.parents = torch.arange(self.sentences.numel(), device=self.sentences.device)
        self.positions = self.sentences.new_empty(1, 0)

    @property
    def tokens(self) -> int:
        """Return P."""
        return self.positions.size(1)

    def begin_step(self) -> None:
        """Make room for the newest token of each row."""
        if self.parents is not None and self.length >= _WORTH_SHARING and self.beam <= _MOST_SHARING:
            self._share(self.parents)
        new = 1
        if self.hidden is not None:
            if self._room < self.beam:
                self._forget(self.hidden)
            self._room -= self.beam
            new = self.beam
            self.hidden = torch.cat([self.hidden, self._not_own(1)], dim=1)
        newest = self.positions.new_full((len(self.positions), new), self.length)
        self.positions = torch.cat([self.positions, newest], dim=1)
        self.length += 1

    def end_step(self) -> None:
        """Take it that all layers have said what they had to say."""
        if self.parents is not None:
            self.parents = torch.arange(self.sentences.numel(), device=self.sentences.device)

    def side_by_side(self, rows: Tensor) -> Tensor:
        """Lay rows (N, …) side by side: K slots a sentence, (B, K, …), some of them empty."""
        sentences = self.layers[0].source_keys.size(0)
        grid = rows.new_zeros(sentences * self.beam, rows.size(1)).index_copy_(0, self.slots, rows)
        return grid.view(sentences, self.beam, -1)

    def in_rows(self, slots: Tensor) -> Tensor:
        """Return rows (N, …) of what lies side by side, (B·K, …)."""
        return slots.index_select(0, self.slots)

    def hide(self, scores: Tensor) -> Tensor:
        """Set those of scores (G, H, Q, P), in place, to -inf that are of tokens that a row does not descend from."""
        if self.hidden is not None and self.beam > 1:
            scores.masked_fill_(self.hidden.view(len(scores), 1, self.beam, -1), float("-inf"))
        return scores

    def select(self, rows: Tensor) -> None:
        """Let row i go on from what row rows[i] has said, for rows (N') of sentences in order.

        The last row may come again, however often, to fill up a number.
        """
        descent = None if self.hidden is None else self.hidden.index_select(0, self.slots[rows])
        self.parents = None if self.parents is None else self.parents[rows]
        self.sentences = self.sentences[rows]
        is_first = torch.ones_like(self.sentences, dtype=torch.bool)
        is_first[1:] = self.sentences[1:] != self.sentences[:-1]
        self._leave(is_first)
        places = torch.arange(rows.numel(), device=rows.device)
        rank = places - torch.where(is_first, places, 0).cummax(0).values
        self.slots = self.sentences * self.beam + rank.clamp_(max=self.beam - 1)
        if descent is not None:
            # a slot without a row sees the first token: nobody asks what it finds, but it must be a number
            self.hidden = descent.new_ones(len(self.positions) * self.beam, self.tokens)
            self.hidden[:, 0] = False
            self.hidden.index_copy_(0, self.slots, descent)

    def _leave(self, is_first: Tensor) -> None:
        """Let go of sentences that no row is of any more, if they are many; is_first (N) marks each one's first row."""
        left = self.sentences[is_first]
        count = self.layers[0].source_keys.size(0)
        if (count - left.numel()) * _WORTH_LEAVING < count:
            return
        shared = self.hidden is not None
        for layer in self.layers:
            layer.keep_sentences(left, shared)
        if self.source_mask is not None:
            self.source_mask = self.source_mask.index_select(0, left)
        if shared:
            self.positions = self.positions.index_select(0, left)
        self.sentences = torch.searchsorted(left, self.sentences)

    def _not_own(self, length: int) -> Tensor:
        """Return True (B·K, K · length) but for each slot's own token, where every slot has one at each position."""
        slots = torch.arange(self.beam, device=self.slots.device)
        others = slots.unsqueeze(1) != slots  # (K, K)
        return others.repeat(len(self.positions), length)

    def _share(self, parents: Tensor) -> None:
        """Let the rows of a sentence share a memory from now on, at first one that has what each of them has said."""
        for layer in self.layers:
            layer.share(parents, self.slots, self.beam)
        sentences = self.layers[0].source_keys.size(0)
        self.positions = self.positions.repeat_interleave(self.beam, dim=1).repeat(sentences, 1)
        self.hidden = self._not_own(self.length)
        self.parents = None

    def _forget(self, hidden: Tensor) -> None:
        """Keep the tokens that some row descends from, as many a sentence as the one needs that needs most."""
        seen = ~hidden.view(-1, self.beam, self.tokens).all(1)  # (B, P)
        most = int(seen.sum(1).max())
        kept = seen.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]  # the first stays the first
        self._room = _ROOM * self.beam
        for layer in self.layers:
            layer.keep(kept.t(), self._room)
        self.hidden = hidden.gather(1, kept.repeat_interleave(self.beam, dim=0))
        self.positions = self.positions.gather(1, kept)
