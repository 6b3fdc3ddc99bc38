"""What training makes small: the model together with its loss, from a batch to two numbers."""

import torch
from torch import Tensor, nn

from nmt.batching.batch import Batch
from nmt.learning.loss import Smoothing, smoothed_cross_entropy
from nmt.model.transformer import Transformer


class Objective(nn.Module):
    """The model with its loss behind it."""

    def __init__(self, model: Transformer, smoothing: Smoothing) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return a batch's summed smoothed loss, differentiable, and its summed negative log-likelihood, in nats."""
        groups = batch.groups
        hidden = self.model(
            [group.source for group in groups],
            [group.source_mask for group in groups],
            [group.target_in for group in groups],
        )
        targets = torch.cat([group.target_out.flatten() for group in groups])
        return smoothed_cross_entropy(hidden, self.model.output.weight, targets, self.smoothing)
