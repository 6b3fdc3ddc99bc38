"""One optimizer update: from batches to changed weights, on one device or on all ranks together."""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nmt.batching.batch import Batch, dummy_batch, pad_to_multiple
from nmt.config import Recipe
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.system.device import autocast, seed_for
from nmt.training.initialization import compile_layers
from nmt.training.loss import Objective
from nmt.training.optimizer import learning_rate, make_optimizer


class Update:
    """An update that the device may still be computing."""

    def __init__(self, step: int, rate: float, results: Tensor) -> None:
        """Take loss, negative log-likelihood and gradient norm on the device."""
        self.step, self.rate = step, rate
        self._results = results.to("cpu", non_blocking=results.is_cuda)  # from a GPU into pinned memory
        self._copied = torch.cuda.Event() if results.is_cuda else None  # type: ignore[no-untyped-call]
        if self._copied is not None:
            self._copied.record()

    def results(self) -> tuple[float, float, float]:
        """Wait for the device, but not for work that it was given later.

        Returns loss and negative log-likelihood, both sums over target tokens in nats, and the gradient norm before
        clipping. If the loss or the norm is not finite, the update has changed nothing.
        """
        if self._copied is not None:
            self._copied.synchronize()
        loss, likelihood, norm = map(float, self._results.tolist())
        return loss, likelihood, norm


class Updater:
    """Model, loss and optimizer; with several ranks, each has a replica of the model.

    With `alone`, one rank makes trial updates without the others.
    """

    def __init__(self, model: Transformer, recipe: Recipe, device: torch.device, alone: bool = False) -> None:
        self.recipe, self.device = recipe, device
        self.model = model.to(device)
        self.objective = Objective(self.model, recipe.train.label_smoothing)
        self.world_size = 1 if alone else distributed.world_size()
        if recipe.runtime.compile and not alone:
            compile_layers(self.model)
        self.replica = replicate(self.objective, device) if self.world_size > 1 else None
        self.optimizer = make_optimizer(self.model, device)
        # whether the optimizer itself skips non-finite updates, so that the host never waits for the device
        self.deferred = device.type == "cuda"

    def update(self, batches: Sequence[Batch], step: int, target_tokens: int) -> Update:
        """Make update number `step` (from 1) out of one or more batches, as if they were one.

        The gradient is that of the mean loss per target token of all batches on all ranks: the summed loss of each
        batch is divided by their total of `target_tokens`. Dropout is a function of (seed, step, batch).
        """
        self.objective.train()
        sums = torch.zeros(2, device=self.device)
        for index, batch in enumerate(batches):
            number = distributed.rank() + index * distributed.world_size()
            torch.manual_seed(seed_for("dropout", self.recipe.seed, step, number))
            sums += self.backward(batch, target_tokens, last=index + 1 == len(batches))
        if self.replica is not None:
            sums = distributed.all_reduce_sum(sums)
        gradients = [weight.grad for weight in self.model.parameters() if weight.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        rate = learning_rate(self.recipe.train, self.recipe.model.dim, step)
        update = Update(step, rate, torch.cat([sums, norm.to(sums.dtype).unsqueeze(0)]))
        self._apply(update, norm, sums[0].isfinite() & norm.isfinite())
        self.optimizer.zero_grad(set_to_none=True)
        return update

    def backward(self, batch: Batch, target_tokens: int, last: bool) -> Tensor:
        """Add the gradient of a batch, divided by a number of tokens; return its summed loss and likelihood, (2,).

        Replicas average their gradients in the `last` backward pass of an update.
        """
        if self.device.type == "cpu":
            batch = pad_to_multiple(batch)
        with nullcontext() if self.replica is None or last else self.replica.no_sync():
            with autocast(self.recipe.runtime, self.device):
                loss, likelihood = (self.replica or self.objective)(batch.to(self.device))
            # the all-reduce averages gradients over ranks, where their sum is needed
            (loss / (target_tokens / self.world_size)).backward()
        return torch.stack((loss.detach(), likelihood))

    def _apply(self, update: Update, norm: Tensor, finite: Tensor) -> None:
        """Clip the gradients to `train.clip_norm` and step the optimizer, unless loss or norm are not finite."""
        clip_norm = self.recipe.train.clip_norm
        for group in self.optimizer.param_groups:
            group["lr"] = update.rate
        if self.deferred:
            # The fused optimizer divides gradients by grad_scale, and changes nothing if found_inf is 1: what it offers
            # to torch.amp.GradScaler. So the host need not wait, and clipping takes no pass over the gradients.
            self.optimizer.grad_scale = None if clip_norm is None else (norm / clip_norm).clamp(min=1)  # type: ignore[attr-defined]
            self.optimizer.found_inf = 1 - finite.float()  # type: ignore[attr-defined]
            self.optimizer.step()
        elif finite:
            if clip_norm is not None:
                nn.utils.clip_grads_with_norm_(self.model.parameters(), clip_norm, norm)
            self.optimizer.step()


def replicate(objective: Objective, device: torch.device) -> DistributedDataParallel:
    """Return a replica on each rank (DDP, Li et al. 2020), whose backward pass averages gradients over all ranks."""
    replica = DistributedDataParallel(objective, gradient_as_bucket_view=True)
    # the only buffers are sinusoids, of different lengths on different ranks; torch is renaming the argument for this
    replica.broadcast_buffers = False
    # After its first pass DDP orders its gradient buckets again, which changes rounding. With that pass made here, the
    # first update of a resumed run equals the same update of an uninterrupted run.
    loss, _ = replica(dummy_batch().to(device))
    loss.backward()
    objective.zero_grad(set_to_none=True)
    return replica
