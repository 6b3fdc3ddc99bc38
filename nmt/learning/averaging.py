"""The average of the weights over the last steps, which translates better than those of any one of them."""

import copy

from torch.optim.swa_utils import get_ema_multi_avg_fn

from nmt.model.transformer import Transformer


class MovingAverage:
    """An exponential moving average of a model's weights, as a model of its own that never learns.

    After each step t it goes the share 1 - d of the way to the new weights. d is the decay, but at first the smaller
    (1+t)/(10+t), so that the random weights of the beginning are soon forgotten.
    """

    def __init__(self, model: Transformer, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self.decay = decay

    def update(self, model: Transformer, step: int) -> None:
        """Take in the weights that the model has after step 1, 2, 3 …"""
        decay = min(self.decay, (1 + step) / (10 + step))
        move = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        move(list(self.model.parameters()), list(model.parameters()), None)
