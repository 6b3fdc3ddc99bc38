"""Models that translate: batches in one process, their order, threads and errors; ensembles.

Ensembles are compared with the mean of the probabilities of their members, by hand and by brute force. For worker
processes see test_workers.py.
"""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt.config import MaxLength, TokenizerSettings
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.decoding.torch_engine import TorchEngine
from nmt.errors import ModelError
from nmt.kernels.device import kernels_for
from nmt.model.stored import check_same_vocabulary
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import Tokenizer, Tokenizers
from tests.builders import log_probs_without_cache, tiny_model
from tests.decoding.reference_search import assert_same, only, sequence_log_prob


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    assert torch.get_num_threads() == request.param
    torch.set_num_threads(before)


def engine_of(model: Transformer) -> TorchEngine:
    """Return what divides batches among threads: on other devices one batch is computed at a time."""
    return TorchEngine([model.for_inference(kernels_for(model.device))])


def test_results_are_in_order_and_each_thread_computes_alone(threads: int) -> None:
    torch_threads = []

    def double(batch: int) -> int:
        torch_threads.append(torch.get_num_threads())
        return 2 * batch

    assert engine_of(tiny_model(1)).run(double, range(20)) == list(range(0, 40, 2))
    assert set(torch_threads) == {1}


def test_engine_keeps_its_threads_while_another_one_computes(threads: int) -> None:
    """Each of which changes the number of torch, as in a server of two models."""
    engine = engine_of(tiny_model(1))
    torch.set_num_threads(3)
    assert engine.run(lambda batch: batch, [1, 2]) == [1, 2]
    assert (engine.threads, torch.get_num_threads()) == (threads, threads)


def test_error_of_a_batch_is_raised_and_the_rest_cancelled(threads: int) -> None:
    started = []

    def fail(batch: int) -> None:
        started.append(batch)
        if batch:
            time.sleep(0.01)  # else other threads may be through all batches before this one cancels them
        raise ValueError(f"batch {batch}")

    with pytest.raises(ValueError, match="batch 0"):
        engine_of(tiny_model(1)).run(fail, range(1000))
    assert len(started) < 1000


def test_forced_decoding_in_threads_keeps_the_attention_of_each_batch() -> None:
    """Several threads run the same model; each collects the queries of its own batch."""
    model = tiny_model(3, vocabulary=12)
    pairs = [([4 + i % 8] * (1 + i % 5), [5 + i % 7] * (1 + i % 4)) for i in range(60)]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = engine_of(model).force(pairs, 12, with_attention=True)
        torch.set_num_threads(4)
        together = engine_of(model).force(pairs, 12, with_attention=True)
    finally:
        torch.set_num_threads(before)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(other.attention, one.attention, atol=1e-5)
        assert other.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-5)


def mean_log_probs(models: list[Transformer], source: list[int], tokens: list[int]) -> Tensor:
    """Return log of the mean probability of each next token, (T+1, V)."""
    return torch.stack([log_probs_without_cache(model, source, tokens).exp() for model in models]).mean(0).log()


@pytest.mark.parametrize("options", [SearchOptions(beam=1), SearchOptions(beam=4, n_best=4)])
def test_ensemble_of_a_model_with_itself_equals_the_model(options: SearchOptions) -> None:
    model = tiny_model(3, vocabulary=12)
    sentences = [[4, 5, 6, 3], [7, 3], [11, 9, 8, 5, 3]]
    alone, twice = (search(models, sentences, options) for models in ([model], [model, model]))
    for one, both in zip(alone, twice, strict=True):
        assert_same(one, both)


@pytest.mark.parametrize("seed", range(3))
def test_wide_beam_search_of_an_ensemble_equals_brute_force(seed: int) -> None:
    models = [tiny_model(seed), tiny_model(seed + 10, decoder_layers=1), tiny_model(seed + 20, dim=8)][: 2 + seed % 2]
    source = [4, 5, 3]
    options = SearchOptions(beam=40, n_best=5, max_length=MaxLength(factor=0, extra=4))
    expected = []
    for length in range(4):
        for tokens in itertools.product([4, 5], repeat=length):
            log_prob = sequence_log_prob(mean_log_probs(models, source, list(tokens)), tokens)
            expected.append((log_prob / options.penalty(length + 1), list(tokens), log_prob))
    expected.sort(reverse=True)
    found = only(search(models, [source], options))
    assert [hypothesis.tokens for hypothesis in found] == [tokens for _, tokens, _ in expected[:5]]
    for hypothesis, (_, _, log_prob) in zip(found, expected, strict=False):
        assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-4)


def test_different_tokenizers_raise() -> None:
    one, other = (
        Tokenizer.train([text] * 20, TokenizerSettings(vocab_size=269)) for text in ("abcd efgh", "ijkl mnop")
    )

    directories = [Path("a"), Path("b"), Path("c")]
    same = Tokenizer.from_bytes(one.to_bytes())
    check_same_vocabulary(directories, [Tokenizers(one, one), Tokenizers(same, same), Tokenizers(one, same)])
    with pytest.raises(ModelError, match=r"c: its target tokenizer is not that of a.*one prepared corpus"):
        check_same_vocabulary(directories, [Tokenizers(one, one), Tokenizers(one, one), Tokenizers(one, other)])
    with pytest.raises(ModelError, match="b: its source tokenizer"):
        check_same_vocabulary(directories[:2], [Tokenizers(one, other), Tokenizers(other, other)])
