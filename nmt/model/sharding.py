"""A model in shards: of every weight, each process holds a piece, and all pieces meet only while a layer computes.

Fully sharded data parallelism, FSDP (Zhao et al. 2023), for models that do not fit on one device with their gradient
and their moments. In one process, and with replicas, all tensors are whole, and the functions here return them as such.
"""

import torch
from torch import Tensor, nn

from nmt.model.transformer import Transformer
from nmt.system import distributed

# torch.distributed.tensor and .fsdp take a while to import, so only those do who need them


def shard(root: nn.Module, model: Transformer, device: torch.device) -> None:
    """Shard a model in place, layer by layer; `root` is the module that is called: the model, or what contains it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (distributed.size(),))
    for layer in (*model.encoder, *model.decoder):
        fully_shard(layer, mesh=mesh)
    fully_shard(root, mesh=mesh)


def whole(model: Transformer) -> Transformer:
    """Return a model with whole weights, for methods that need them all at once: itself, or a copy of what is sharded.

    All processes must ask for it together.
    """
    weights = [whole_tensor(weight) for weight in model.parameters()]
    if all(mine is same for mine, same in zip(weights, model.parameters(), strict=True)):
        return model
    source, target = (embedding.tokens.num_embeddings for embedding in (model.source_embedding, model.target_embedding))
    with weights[0].device:
        copy = Transformer(model.settings, source, target, initialized=False).requires_grad_(False)
    for weight, value in zip(copy.parameters(), weights, strict=True):
        weight.data = value
    return copy


def whole_tensor(tensor: Tensor) -> Tensor:
    """Put the pieces of a tensor together, which all processes must do together; return a whole one as it is."""
    if distributed.size() == 1:
        return tensor
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor().detach() if isinstance(tensor, DTensor) else tensor


def laid_out_like(parameter: Tensor, value: Tensor) -> Tensor:
    """Return a whole value as a parameter is laid out: on its device, and if that is sharded, this process's piece."""
    if distributed.size() > 1:
        from torch.distributed.tensor import DTensor, distribute_tensor

        if isinstance(parameter, DTensor):
            mesh, placements = parameter.device_mesh, parameter.placements
            return distribute_tensor(value.to(parameter.device), mesh, placements, src_data_rank=None)
    return value.to(parameter.device)
