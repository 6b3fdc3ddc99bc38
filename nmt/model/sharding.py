"""Fully sharded data parallelism, FSDP (Zhao et al. 2023): each process holds a shard of every weight.

The shards of a layer are gathered only while it computes. For models that do not fit on one device with their gradients
and moments. In one process, and with replicas, no tensor is sharded, and the functions here return their input.
"""

import torch
from torch import Tensor, nn

from nmt.model.transformer import Transformer
from nmt.system import distributed

# torch.distributed.tensor and .fsdp take long to import, so they are imported where they are needed


def shard(root: nn.Module, model: Transformer, device: torch.device, gather_in_bf16: bool = False) -> None:
    """Shard a model in place, layer by layer; `root` is the module that is called: the model or its wrapper.

    With `gather_in_bf16`, the weights of layers are rounded before they are gathered: half the traffic. Autocast rounds
    all of them later, except those of norms. Gradients are summed in fp32. Embeddings and output are gathered in fp32,
    because the gradient of a weight that is used several times would be accumulated in bf16.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(device.type, (distributed.world_size(),))
    in_bf16 = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
    policy = in_bf16 if gather_in_bf16 else MixedPrecisionPolicy()
    for layer in (*model.encoder, *model.decoder):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(root, mesh=mesh)


def unsharded_model(model: Transformer) -> Transformer:
    """Return a model with whole weights: the model itself if it is not sharded. Call it on all ranks."""
    weights = [full_tensor(weight) for weight in model.parameters()]
    if all(full is weight for full, weight in zip(weights, model.parameters(), strict=True)):
        return model
    source, target = (embedding.tokens.num_embeddings for embedding in (model.source_embedding, model.target_embedding))
    with weights[0].device:
        copy = Transformer(model.settings, source, target, initialized=False).requires_grad_(False)
    for weight, value in zip(copy.parameters(), weights, strict=True):
        weight.data = value
    return copy


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the whole tensor of shards. Call it on all ranks."""
    if distributed.world_size() == 1:
        return tensor
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor().detach() if isinstance(tensor, DTensor) else tensor


def laid_out_like(parameter: Tensor, value: Tensor) -> Tensor:
    """Return a value on the device of a parameter and, if that is sharded, this rank's shard of the value."""
    if distributed.world_size() > 1:
        from torch.distributed.tensor import DTensor, distribute_tensor

        if isinstance(parameter, DTensor):
            mesh, placements = parameter.device_mesh, parameter.placements
            return distribute_tensor(value.to(parameter.device), mesh, placements, src_data_rank=None)
    return value.to(parameter.device)
