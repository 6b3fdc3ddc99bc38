"""What training makes small: the model together with its loss, from a batch to two numbers."""

import torch
from torch import Tensor, nn

from nmt.batching.batch import Batch
from nmt.model.transformer import Transformer
from nmt.training.loss import Smoothing, r_drop_loss, smoothed_cross_entropy


class Objective(nn.Module):
    """The model with its loss behind it; with R-Drop, whose weight is `r_drop`, a batch is learnt in two passes."""

    def __init__(self, model: Transformer, smoothing: Smoothing, r_drop: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.r_drop = r_drop

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return a batch's summed smoothed loss, differentiable, and its summed negative log-likelihood, in nats."""
        targets = torch.cat([group.target_out.flatten() for group in batch.groups])
        hidden, weight = self._hidden(batch), self.model.output.weight
        if self.r_drop and self.training:
            again = self._hidden(batch)  # under another draw of dropout
            return r_drop_loss((hidden, again), weight, targets, self.smoothing, self.r_drop, batch.target_tokens)
        return smoothed_cross_entropy(hidden, weight, targets, self.smoothing, batch.target_tokens)

    def _hidden(self, batch: Batch) -> Tensor:
        """Return the decoder's hidden states at all target positions (N, D)."""
        groups = batch.groups
        hidden: Tensor = self.model(
            [group.source for group in groups],
            [group.source_mask for group in groups],
            [group.target_in for group in groups],
        )
        return hidden
