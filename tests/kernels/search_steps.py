"""Checks of kernels for a step of a search against the functions of `nmt.decoding.beam`."""

import math
from collections.abc import Callable
from dataclasses import fields

import torch
from torch import Tensor

from nmt.decoding.beam import GROWTH, MARGIN, Beams, advance, best_candidates, extend_each
from nmt.decoding.options import SearchOptions
from nmt.kernels.reference import Searching
from nmt.text.tokenizer import EOS

LIMITS = [10, 7, 9]  # of the sentences that are searched


def check_beam_search(
    kernel: Callable[[Beams, Tensor, Tensor, Searching], None], options: SearchOptions, device: torch.device
) -> None:
    """Search to the end of all sentences, with random probabilities (B, K, C)."""
    positions = max(LIMITS)
    penalties = torch.tensor([options.penalty(length) for length in range(positions + 1)], device=device)
    searching = Searching(penalties, math.inf if options.exact else MARGIN, GROWTH)
    expected, found = begun(options, 1, device)
    for _ in range(positions):
        log_probs, tokens = next_tokens(expected, options.beam + 1)
        expected.assign(advance(expected, best_candidates(expected, log_probs, tokens), penalties, options))
        kernel(found, log_probs, tokens, searching)
        check_equal(found, expected)
    assert all(finished(expected, sentence) for sentence in range(len(LIMITS)))
    assert not (found.log_probs > -torch.inf).any()


def check_sampling(kernel: Callable[[Beams, Tensor, Tensor], None], options: SearchOptions) -> None:
    """Extend each hypothesis to the end of all sentences, with random tokens (B, K, 1)."""
    expected, found = begun(options, options.width, torch.device("cpu"))
    for _ in range(max(LIMITS)):
        log_probs, tokens = next_tokens(expected, 1)
        expected.assign(extend_each(expected, log_probs.squeeze(2), tokens.squeeze(2)))
        kernel(found, log_probs, tokens)
        check_equal(found, expected)
    assert bool((found.finished_lengths > 0).all())


def begun(options: SearchOptions, active: int, device: torch.device) -> tuple[Beams, Beams]:
    """Return two equal states at the beginning of a search."""
    beams = Beams.empty(len(LIMITS), max(LIMITS), options, device)
    beams.begin(torch.arange(len(LIMITS), device=device), torch.tensor(LIMITS, device=device), active)
    return beams, Beams(*(getattr(beams, field.name).clone() for field in fields(beams)))


def check_equal(found: Beams, expected: Beams) -> None:
    """Check all that is read of two states."""
    for name in ("log_probs", "tokens", "lengths"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0, atol=0)
    for sentence, length in enumerate(expected.lengths.tolist()):
        active = expected.log_probs[sentence] > -torch.inf
        histories = (beams.history[sentence, active, :, :length] for beams in (found, expected))
        torch.testing.assert_close(*histories, rtol=0, atol=0)
        assert finished(found, sentence) == finished(expected, sentence)


def finished(beams: Beams, sentence: int) -> list[tuple[float, float, list[int]]]:
    """Return the finished hypotheses of a sentence, in a fixed order."""
    columns = beams.finished, beams.finished_log_probs, beams.finished_lengths, beams.finished_tokens
    rows = zip(*(column[sentence].tolist() for column in columns), strict=True)
    return sorted((score, log_prob, ids[:length]) for score, log_prob, length, ids in rows if length)


def next_tokens(beams: Beams, width: int) -> tuple[Tensor, Tensor]:
    """Return random best tokens of all hypotheses, of 9 tokens, and their log-probabilities; only `</s>` at a limit."""
    count, beam = beams.log_probs.shape
    device = beams.log_probs.device
    log_probs = (-2 * torch.rand(count, beam, width, device=device)).sort(2, descending=True).values
    tokens = torch.stack([torch.randperm(9)[:width] + EOS for _ in range(count * beam)]).view(count, beam, width)
    must_end = beams.limits == beams.lengths
    log_probs[must_end, :, 1:] = -torch.inf
    tokens[must_end.cpu(), :, 0] = EOS
    return log_probs, tokens.to(device)
