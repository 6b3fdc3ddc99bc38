"""One optimizer update: from batches to changed weights, on one device or on all ranks together."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import count

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nmt.batching.batch import Batch, dummy_batch, pad_to_multiple
from nmt.config import Recipe
from nmt.errors import ConfigError
from nmt.model.checkpoint import full_tensor
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.system.device import autocast, computes_in_bf16, is_oom, release_cached_blocks, seed_for
from nmt.training.initialization import compile_layers
from nmt.training.loss import Objective
from nmt.training.optimizer import learning_rate, make_optimizer
from nmt.training.progress import Adjustments


class HostCopy:
    """An asynchronous copy of scalars from a device to the host."""

    def __init__(self, numbers: Tensor) -> None:
        self._numbers = numbers.to("cpu", non_blocking=numbers.is_cuda)  # from a GPU into pinned memory
        self._copied = torch.cuda.Event() if numbers.is_cuda else None  # type: ignore[no-untyped-call]
        if self._copied is not None:
            self._copied.record()

    def read(self) -> list[float]:
        """Wait for the copy, but not for work that the device was given after it; return the numbers."""
        if self._copied is not None:
            self._copied.synchronize()
        return list(map(float, self._numbers.tolist()))


@dataclass(frozen=True)
class DispatchedUpdate:
    """An update that the device may still be computing, with all that the host has counted."""

    step: int
    source_tokens: int
    target_tokens: int
    padded_target_tokens: int
    rate: float
    adjustments: Adjustments  # as passed to `dispatch`, or with a smaller `largest_batch` if a batch did not fit
    results: HostCopy  # loss, negative log-likelihood and gradient norm

    def synchronized(self) -> "Update":
        """Wait for the device; return the update with its results."""
        loss, likelihood, gradient_norm = self.results.read()
        return Update(**vars(self), loss=loss, likelihood=likelihood, gradient_norm=gradient_norm)


@dataclass(frozen=True)
class Update(DispatchedUpdate):
    """A finished update. Loss and (negative log-)likelihood are sums over target tokens, in nats."""

    loss: float
    likelihood: float
    gradient_norm: float

    @property
    def finite(self) -> bool:
        """Whether loss and gradient are finite; if not, the update has changed nothing."""
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


class DoesNotFitError(MemoryError):
    """A part of a batch needs more memory than there is; batches are to be cut to `largest_batch` padded tokens."""

    def __init__(self, part: Batch) -> None:
        super().__init__(f"{part.padded_tokens:,} padded tokens do not fit into memory")
        # Less than the size that failed, since batches almost as large would fail too; more than half of it, since half
        # is the size of the parts.
        self.largest_batch = max(1, part.padded_tokens * 3 // 4)


_NO_ADJUSTMENTS = Adjustments()


def skips_on_device(device: torch.device) -> bool:
    """Return whether the optimizer itself skips non-finite updates, so that the host never waits for the device."""
    return device.type == "cuda"


class Updater:
    """Model, objective and optimizer.

    With `alone`, `accumulate_gradients` and `apply_gradients` make trial updates on one rank, without collectives.
    """

    def __init__(self, model: Transformer, recipe: Recipe, device: torch.device, alone: bool = False) -> None:
        self.model = model.to(device)
        self.device = device
        self.recipe = recipe
        self.world_size = 1 if alone else distributed.world_size()
        self.objective = Objective(self.model, recipe.train.label_smoothing)
        if recipe.runtime.compile and not alone:
            compile_layers(self.model, device)
        self.sharded = self.world_size > 1 and recipe.runtime.parallel == "fsdp"
        self.replica = None if self.world_size == 1 or self.sharded else replicate(self.objective, device)
        if self.sharded:
            # the kernels for CPUs round weights themselves
            gather_in_bf16 = device.type == "cuda" and computes_in_bf16(recipe.runtime, device)
            shard(self.objective, self.model, device, gather_in_bf16)
        self.optimizer = make_optimizer(self.model, recipe.train, device)
        # whether `dispatch` returns before the device has finished, so that results are best read a step later
        self.deferred = skips_on_device(device) and not self.sharded

    def validation_objective(self) -> Objective:
        """Return an objective with the model to validate, unsharded."""
        model = unsharded_model(self.model)
        return self.objective if model is self.model else Objective(model, self.objective.smoothing)

    def update(self, batches: Sequence[Batch], step: int, adjustments: Adjustments = _NO_ADJUSTMENTS) -> Update:
        """Make update number `step` and wait for its results; see `dispatch`."""
        return self.dispatch(batches, step, adjustments).synchronized()

    def dispatch(
        self, batches: Sequence[Batch], step: int, adjustments: Adjustments = _NO_ADJUSTMENTS
    ) -> DispatchedUpdate:
        """Make update number `step` (from 1) out of one or more batches, as if they were one.

        The gradient is that of the mean loss per target token of all batches on all ranks: tokens are counted first,
        and the summed loss of each batch is divided by the total. Dropout is a function of (seed, step, batch).

        An update whose loss or gradient is not finite changes nothing. A batch that does not fit into memory is cut,
        and the update starts again. Raises ConfigError if a single sentence pair does not fit.
        """
        self.objective.train()
        counts = [(batch.source_tokens, batch.target_tokens, batch.padded_target_tokens) for batch in batches]
        source_tokens, target_tokens, padded_target_tokens = distributed.all_reduce_sum(
            *map(sum, zip(*counts, strict=True))
        )

        while True:
            try:
                losses = self.accumulate_gradients(batches, target_tokens, step, adjustments.largest_batch)
                break
            except DoesNotFitError as failure:
                largest_batch = failure.largest_batch
            self.optimizer.zero_grad(set_to_none=True)  # a part of the batch that failed is in the gradient
            release_cached_blocks(self.device)
            adjustments = replace(adjustments, largest_batch=largest_batch)
        adjustments = sync_adjustments(adjustments)

        norm = self.clip_gradients()
        sums = distributed.all_reduce_sum_on_device(losses)
        results = torch.cat([sums, norm.to(sums.dtype).unsqueeze(0)])
        rate = adjustments.rate * learning_rate(self.recipe.train, self.recipe.model.dim, step)
        tokens = (source_tokens, target_tokens, padded_target_tokens)
        update = DispatchedUpdate(step, *tokens, rate, adjustments, HostCopy(results))
        if self.deferred:
            loss, _, norm = results.isfinite().unbind()
            self.optimizer.found_inf = 1 - (loss & norm).float()  # type: ignore[attr-defined]
            self.apply_gradients(rate)
        elif update.synchronized().finite:
            self.apply_gradients(rate)
        self.optimizer.zero_grad(set_to_none=True)
        return update

    def accumulate_gradients(
        self, batches: Sequence[Batch], total: int, step: int, largest_batch: int | None = None
    ) -> Tensor:
        """Accumulate the gradient of all batches, divided by a total of target tokens.

        Returns the sums of losses and negative log-likelihoods, shape (2,). Batches of more than `largest_batch` tokens
        are cut. Raises DoesNotFitError if a part does not fit, ConfigError if that is a single pair.
        """
        losses = torch.zeros(2, device=self.device)
        cut_batches = [batch.cut(None if self.sharded else largest_batch) for batch in batches]
        remaining = sum(map(len, cut_batches))
        for number, parts in zip(count(distributed.rank(), distributed.world_size()), cut_batches, strict=False):
            for index, part in enumerate(parts):
                position = (number, index) if len(parts) > 1 else (number,)
                torch.manual_seed(seed_for("dropout", self.recipe.seed, step, *position))
                remaining -= 1
                losses += self._backward(part, total, last=remaining == 0)
        return losses

    def _backward(self, part: Batch, total: int, last: bool) -> Tensor:
        """Add the gradient of a part of a batch; return its loss and negative log-likelihood, shape (2,)."""
        in_collective = self.sharded
        try:
            batch = pad_to_multiple(part, self.model.longest) if self.device.type == "cpu" else part
            # replicas all-reduce their gradients in the last backward pass, shards in each
            with nullcontext() if self.replica is None or last else self.replica.no_sync():
                with autocast(self.recipe.runtime, self.device):
                    loss, likelihood = (self.replica or self.objective)(batch.to(self.device))
                in_collective = in_collective or (last and self.world_size > 1)
                # the all-reduce averages gradients over ranks, where their sum is needed
                (loss / (total / self.world_size)).backward()
            return torch.stack((loss.detach(), likelihood))
        except (RuntimeError, MemoryError) as error:
            if not is_oom(error):
                raise
        # outside the handler, where the traceback of the failure no longer holds the activations
        if in_collective:
            raise ConfigError(
                f"train.batch_tokens: a batch does not fit into the memory of {self.device}; this happened while ranks "
                "exchanged gradients, when it can no longer be cut; lower batch_tokens and raise train.accumulate"
            )
        if part.sentences == 1:
            raise ConfigError(
                f"a single sentence pair of {part.padded_tokens:,} tokens, source and target, does not fit into the "
                f"memory of {self.device}; lower data.filters.max_tokens, or make the model smaller"
            )
        raise DoesNotFitError(part)

    def clip_gradients(self) -> Tensor:
        """Clip the gradients to `train.clip_norm`; return their norm before. Deferred: the optimizer divides them."""
        clip_norm, parameters = self.recipe.train.clip_norm, list(self.model.parameters())
        norm = nn.utils.get_total_norm([weight.grad for weight in parameters if weight.grad is not None])
        if self.deferred:
            # in the kernel of the optimizer, which saves a pass over all gradients
            self.optimizer.grad_scale = None if clip_norm is None else (norm / clip_norm).clamp(min=1)  # type: ignore[attr-defined]
        elif clip_norm is not None:
            nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm)
        return full_tensor(norm)

    def apply_gradients(self, rate: float) -> None:
        """Step the optimizer."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
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


def shard(root: nn.Module, model: Transformer, device: torch.device, gather_in_bf16: bool = False) -> None:
    """Give each rank a shard of every weight, in place (FSDP, Zhao et al. 2023); `root` is the model or its wrapper.

    For models that do not fit on one device with their gradients and moments: the shards of a layer are gathered only
    while it computes.

    With `gather_in_bf16`, the weights of layers are rounded before they are gathered: half the traffic. Autocast rounds
    all of them later, except those of norms. Gradients are summed in fp32. Embeddings and output are gathered in fp32,
    because the gradient of a weight that is used several times would be accumulated in bf16.
    """
    # these take long to import
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(device.type, (distributed.world_size(),))
    in_bf16 = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
    policy = in_bf16 if gather_in_bf16 else MixedPrecisionPolicy()
    for layer in (*model.encoder, *model.decoder):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(root, mesh=mesh)


def unsharded_model(model: Transformer) -> Transformer:
    """Return a model with whole weights: the model itself if it is not sharded. Collective."""
    weights = [full_tensor(weight) for weight in model.parameters()]
    if all(full is weight for full, weight in zip(weights, model.parameters(), strict=True)):
        return model
    source, target = (embedding.tokens.num_embeddings for embedding in (model.source_embedding, model.target_embedding))
    with weights[0].device:
        copy = Transformer(model.settings, source, target, initialized=False).requires_grad_(False)
    for weight, value in zip(copy.parameters(), weights, strict=True):
        weight.data = value
    return copy


def sync_adjustments(adjustments: Adjustments) -> Adjustments:
    """Return the adjustments with the smallest `largest_batch` of all ranks. Collective."""
    limit = -math.inf if adjustments.largest_batch is None else -float(adjustments.largest_batch)
    (lowest,) = distributed.all_reduce_max(limit)
    return adjustments if lowest == limit else replace(adjustments, largest_batch=int(-lowest))
