"""The loop of a search: models predict the next tokens of all hypotheses, and the state advances.

The state is on the device of the models, which may compute several steps before the host fetches the results. Then
new sentences replace those that are finished.

B slots, each for a sentence; K hypotheses of each, N that are computed in a step, S positions of the source, P of the
target, C candidates of a hypothesis, V vocabulary.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.batching.batch import Rows
from nmt.decoding.beam import Beams, Observer, advance, best_candidates, draw, extend_each
from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Hypothesis, hypotheses
from nmt.decoding.rules import Prefixes, apply_rules
from nmt.errors import is_oom
from nmt.kernels.reference import Places, SearchSize, largest
from nmt.model.cache import DecoderCache, cache_numbers
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import EOS

Models = Sequence[Transformer]  # one, or several as an ensemble
FinishedOf = Callable[[NDArray[np.bool_]], dict[int, list[Hypothesis]]]
_ROWS_PER_FETCH = 8192  # the most computed between two fetches, unless one step has more
_NO_FETCH = np.iinfo(np.int64).max
_REFILLS = 8  # slots are filled with new sentences when at least 1/8 of them is free


class Sentence(NamedTuple):
    """A sentence to translate, and its index among all sentences."""

    number: int
    source: Sequence[int]  # ids with `</s>`
    prefix: Sequence[int]  # ids that its hypotheses begin with
    limit: int  # the longest output, with `</s>`


@dataclass
class Encoded:
    """Encoded sentences, and the index of the first one whose search has not begun."""

    sentences: Sequence[Sentence]
    rows: Rows
    keys_values: Sequence[Sequence[Tensor]]  # (M, 2D) of each model and layer
    first: int = 0

    @property
    def waiting(self) -> int:
        """The number of sentences whose search has not begun."""
        return len(self.sentences) - self.first


@torch.inference_mode()
def search(
    models: Models,
    sentences: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]] | None = None,
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """Return up to n_best hypotheses of each sentence, best first; fewer only if no more exist.

    Sentences are source ids with `</s>`, for the encoder; several models are an ensemble. `prefixes` are the target ids
    that the hypotheses of each sentence begin with. The result of a sentence does not depend on the others, except for
    rounding. An observer receives the steps of a beam search; with it, a beam of 1 is not greedy search, and
    sampling is not allowed. Raises ModelError if log-probabilities of the models are NaN.
    """
    if not sentences:
        return []
    prefixes = prefixes or [()] * len(sentences)
    most = min(model.settings.longest for model in models)
    remaining = (  # made when they are needed, while a GPU computes
        Sentence(number, ids, prefix, options.limit(len(ids), most, len(prefix)))
        for number, (ids, prefix) in enumerate(zip(sentences, prefixes, strict=True))
    )
    kernels, tokens = models[0].kernels, options.batch_tokens // options.width
    lengths = [*map(len, sentences)]
    size = kernels.search_size(lengths, options.limit(max(lengths), most, max(map(len, prefixes))), tokens)
    make = partial(Search, models, options, size, any(prefixes))
    if observer is not None:
        return make().run(remaining, observer)
    key = *map(id, models), options.model_dump_json(), size, any(prefixes)
    numbers = sum(cache_numbers(model.settings, size.source, size.target, options.width) for model in models)
    try:
        cache_bytes = size.slots * numbers * (kernels.dtype or torch.float32).itemsize
        return kernels.reuse(key, cache_bytes, make).run(remaining)
    except (RuntimeError, MemoryError) as error:
        if is_oom(error):
            kernels.reduce_search_size(key, size)
        raise


class Search:
    """A search of any number of sentences in B slots."""

    def __init__(self, models: Models, options: SearchOptions, size: SearchSize, has_prefixes: bool) -> None:
        """Allocate slots."""
        self.models, self.options, self.kernels = models, options, models[0].kernels
        self.slots, self._source_positions, positions = size
        device = models[0].device
        self.beams = Beams.empty(self.slots, positions, options, device)
        all_rows = torch.arange(self.slots * options.width, device=device)
        ancestors = self.beams.history[:, :, 1]
        self._places = Places(all_rows, self.beams.lengths, ancestors, options.width, positions)
        self._caches: list[DecoderCache] = []
        self._rules = options.rules(positions)
        self._penalties = torch.tensor(self._rules.penalties, device=device)
        # (B, P) the tokens that a hypothesis must begin with, -1 where there are none
        self._required = torch.full((self.slots, positions), -1, device=device) if has_prefixes else None
        self._noise = torch.zeros(self.slots, options.width, positions, device=device) if options.sampling else None
        self._record_step = self.kernels.recorder()
        # scores by their definition read padded sentences, whose shapes differ
        may_record = all(model.attends_by_kernels for model in models)
        self._encode_rows = self.kernels.recorded(partial(_keys_values, models), "the encoder", may_record)
        self._observer: Observer | None = None

    def run(self, sentences: Iterable[Sentence], observer: Observer | None = None) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, by its number; these should be sorted, the longest first."""
        self._observer, remaining = observer, iter(sentences)
        is_asynchronous = self.kernels.steps_per_fetch > 1
        most_steps = max(1, _ROWS_PER_FETCH // (self.slots * self.options.width))
        steps_per_fetch = min(self.kernels.steps_per_fetch, most_steps)
        self._places.longest = self.beams.history.size(3) if is_asynchronous else 0
        self.beams.log_probs.fill_(-torch.inf)  # discards hypotheses of a previous search that failed
        free, searched = list(range(self.slots)), dict[int, Sentence]()  # slots without a sentence; sentences by slot
        first_fetches = np.full(self.slots, _NO_FETCH)  # the first fetch that contains a slot's sentence
        encoded = self._encode(list(islice(remaining, self.slots)))
        fetches, fetches_read = list[FinishedOf](), 0
        results = dict[int, list[Hypothesis]]()
        while searched or encoded.waiting:
            ready_count = min(len(free), encoded.waiting)
            if ready_count and (ready_count == encoded.waiting or ready_count * _REFILLS >= self.slots):
                slots, free = free[:ready_count], free[ready_count:]
                searched |= zip(slots, self._begin(slots, encoded, ready_count), strict=True)
                first_fetches[slots] = fetches_read + len(fetches)
            for _ in range(steps_per_fetch):
                if not is_asynchronous:  # else it must stay as it was when the step was recorded
                    self._places.longest = min(self._places.longest + 1, self.beams.history.size(3))
                if observer is None:
                    self._record_step(self.step)
                else:  # the observer reads the state of every step
                    self.step()
            fetches.append(self._fetch())
            # while a GPU computes these steps
            if not encoded.waiting and (following := list(islice(remaining, math.ceil(self.slots / 2)))):
                encoded = self._encode(following)
            if is_asynchronous and len(fetches) == 1:
                continue  # its results are read after the next steps are dispatched
            finished = fetches.pop(0)(first_fetches <= fetches_read)
            fetches_read += 1
            for slot, best in finished.items():
                results[searched.pop(slot).number] = best
            first_fetches[list(finished)] = _NO_FETCH
            free += finished
        return [results[number] for number in range(len(results))]

    def step(self) -> None:
        """Extend all hypotheses by one token."""
        beams, options = self.beams, self.options
        log_probs, tokens = self._next_tokens(self._logits())  # (N, C)
        shape = self.slots, options.width, tokens.size(1)
        if len(self._places.rows) < self.slots * options.width:
            grid = log_probs.new_full((self.slots * options.width, tokens.size(1)), -torch.inf)
            log_probs = grid.index_copy(0, self._places.rows, log_probs)
            tokens = tokens.new_full(grid.shape, EOS).index_copy_(0, self._places.rows, tokens)
        log_probs, tokens = log_probs.view(shape), tokens.view(shape)
        if self._is_greedy or options.sampling is not None:
            beams.assign(extend_each(beams, log_probs.squeeze(2), tokens.squeeze(2)))
            return
        if options.beam <= self.kernels.fused_beam and self._observer is None:
            self.kernels.advance(beams, log_probs, tokens, self._penalties, self._rules)
            return
        candidates = best_candidates(beams, log_probs, tokens)
        after = advance(beams, candidates, self._penalties, options)
        if self._observer is not None:
            self._observer(beams, candidates, after)
        beams.assign(after)

    @property
    def _is_greedy(self) -> bool:
        """Whether the most probable token of each step is chosen: a beam of 1 ends with the first `</s>`."""
        return self.options.beam == 1 and self.options.sampling is None and self._observer is None

    def _logits(self) -> Tensor:
        """Return the logits (N, V) of the tokens that follow the newest ones; of an ensemble, log(Σₘ pₘ / M)."""
        mean: Tensor | None = None
        for model, cache in zip(self.models, self._caches, strict=True):
            logits = model.logits(model.decode_step(self.beams.tokens, cache))
            if len(self.models) > 1:
                logits = logits.float().log_softmax(-1)
            mean = logits if mean is None else torch.logaddexp(mean, logits, out=mean)
        assert mean is not None
        return mean if len(self.models) == 1 else mean.sub_(math.log(len(self.models)))

    def _next_tokens(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the C best or drawn next tokens of the hypotheses, and their log-probabilities, both (N, C)."""
        options, places, beams = self.options, self._places, self.beams
        sentences = places.rows // places.beam
        lengths = beams.lengths[sentences]
        must_end = beams.limits[sentences] == lengths
        count = 1 if self._is_greedy else options.beam + 1
        if self._required is None and not options.changes_logits:
            as_log_probs = options.log_probs or not self._is_greedy
            return self.kernels.best_tokens(logits, must_end, count, as_log_probs)
        logits = logits.float()
        log_probs = logits.log_softmax(-1)
        required = None if self._required is None else self._required[sentences, lengths - 1]
        prefixes = Prefixes(beams.history[:, :, 0].flatten(0, 1)[places.rows], lengths, must_end, required)
        if self._noise is None:
            apply_rules(log_probs, prefixes, options.no_repeat_ngram)
            return largest(log_probs, count)
        assert options.sampling is not None
        apply_rules(logits, prefixes, options.no_repeat_ngram)
        noise = self._noise[sentences, places.rows % places.beam, lengths - 1]
        tokens = draw(logits, noise, options.sampling).unsqueeze(1)
        return log_probs.gather(1, tokens), tokens

    def _encode(self, sentences: Sequence[Sentence]) -> Encoded:
        """Encode sentences, so that `_begin` can start to search them."""
        in_ram = Rows.of([sentence.source for sentence in sentences], self.kernels.encoder_multiple)
        rows, keys_values = self._encode_rows(in_ram)
        return Encoded(sentences, rows, keys_values)

    def _begin(self, slots: Sequence[int], encoded: Encoded, count: int) -> Sequence[Sentence]:
        """Start to search the next `count` encoded sentences in these slots; return the sentences."""
        start, end, options = encoded.first, encoded.first + count, self.options
        encoded.first = end
        sentences = encoded.sentences[start:end]
        numbers = [slots, [len(sentence.source) for sentence in sentences], [sentence.limit for sentence in sentences]]
        indices, lengths, limits = self.kernels.to_device(torch.tensor(numbers)).unbind()
        row_slice, rows = encoded.rows.part(start, end)
        if not self._caches:
            self._caches = [
                DecoderCache.empty(layers_of_model[0], len(layers_of_model), self._source_positions, self._places)
                for layers_of_model in encoded.keys_values
            ]
        for cache, of_model in zip(self._caches, encoded.keys_values, strict=True):
            cache.load(indices, rows, lengths, [layer_keys_values[row_slice] for layer_keys_values in of_model])
        self.beams.begin(indices, limits, 1 if options.sampling is None else options.width)
        if self._required is not None:
            required = torch.full((count, self._required.size(1)), -1)
            for row, sentence in zip(required, sentences, strict=True):
                row[: len(sentence.prefix)] = torch.tensor(sentence.prefix)
            self._required.index_copy_(0, indices, self.kernels.to_device(required))
        if self._noise is not None:
            sources = [sentence.source for sentence in sentences]
            noise = torch.from_numpy(options.noise(sources, [sentence.limit for sentence in sentences]))
            self._noise[:, :, : noise.size(2)].index_copy_(0, indices, self.kernels.to_device(noise))
        self._select_rows()
        return sentences

    def _fetch(self) -> FinishedOf:
        """Return a function of a mask of slots; it returns the hypotheses of those that are finished by now."""
        self._select_rows()
        beams = self.beams
        active = (beams.log_probs > -torch.inf).any(1)
        fetched = self.kernels.fetch(active, beams.finished_tokens, beams.finished_log_probs, beams.finished_lengths)

        def finished(mask: NDArray[np.bool_]) -> dict[int, list[Hypothesis]]:
            is_active, tokens, log_probs, lengths = (tensor.numpy() for tensor in fetched())
            slots = np.flatnonzero(mask & ~is_active)
            longest = lengths[slots].max(initial=0)
            columns = (slots, tokens[slots, :, :longest], log_probs[slots], lengths[slots])
            rows = zip(*(column.tolist() for column in columns), strict=True)
            return {slot: hypotheses(ids, totals, sizes, self.options) for slot, ids, totals, sizes in rows}

        return finished

    def _select_rows(self) -> None:
        """If the host fetches after each step, compute active hypotheses only."""
        if self.kernels.steps_per_fetch == 1:
            self._places.rows = (self.beams.log_probs.flatten() > -torch.inf).nonzero().squeeze(1)


def _keys_values(models: Models, rows: Rows) -> list[list[Tensor]]:
    """Return the keys and values (M, 2D) of each model and layer for source rows."""
    return [model.encode_keys_values(rows) for model in models]
