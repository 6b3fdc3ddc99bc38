"""The average of the weights over the last steps, which translates better than those of any one of them."""

import copy

import torch
from torch import Tensor

from nmt.model.transformer import Transformer


class MovingAverage:
    """An exponential moving average of a model's weights, as a model of its own that never learns.

    After each step t it goes the share 1 - d of the way to the new weights. d is the decay, but at first the smaller
    (1+t)/(10+t), so that the random weights of the beginning are soon forgotten.
    """

    def __init__(self, model: Transformer, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self.decay = decay

    @torch.no_grad()
    def update(self, model: Transformer, step: int, made: Tensor | None = None) -> None:
        """Take in the weights that the model has after step 1, 2, 3 …

        Where only the device knows whether the step was made, `made` is its 1 or 0, a scalar; 0 leaves all as it is.
        """
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        ours: list[Tensor] = list(self.model.parameters())
        theirs: list[Tensor] = list(model.parameters())
        if made is None:
            torch._foreach_lerp_(ours, theirs, share)
        else:
            torch._foreach_lerp_(ours, theirs, [share * made] * len(ours))
