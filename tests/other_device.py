"""A device that is not there, to show that nothing on a GPU meets a tensor of the CPU by mistake.

Tensors `to(OTHER)` say that they are there, though their numbers lie on the CPU; an operation on tensors of both
devices fails, as it would on a GPU. What is allowed there is allowed here: numbers, moves, and indices from the CPU.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

OTHER = torch.device("meta")
"""Of all names of devices the one that torch knows everywhere, and that nmt never asks for."""

_MOVES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}
_TAKE_INDICES = {
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put_.default,
    torch.ops.aten._index_put_impl_.default,
}


class OtherTensor(Tensor):
    """A tensor on the other device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "OtherTensor":
        layout = {"strides": inner.stride(), "storage_offset": inner.storage_offset(), "dtype": inner.dtype}
        made = Tensor._make_wrapper_subclass(
            cls, inner.size(), device=OTHER, requires_grad=inner.requires_grad, **layout
        )
        made.inner = inner
        return made

    def tolist(self) -> Any:
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _run(function, args, kwargs or {})


class OtherDevice:
    """Within this context the other device is there."""

    def __enter__(self) -> None:
        # or weights that are tied would part as they move
        torch.__future__.set_swap_module_params_on_conversion(True)
        self._modes = (_FromPython(), _Dispatch())
        for mode in self._modes:
            mode.__enter__()

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*error)
        torch.__future__.set_swap_module_params_on_conversion(False)


class _Dispatch(TorchDispatchMode):
    def __torch_dispatch__(
        self, function: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _run(function, args, kwargs or {})


class _FromPython(TorchFunctionMode):
    """Let tensors of Python's numbers come to the device by a move, which can be seen."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if function not in (torch.tensor, torch.as_tensor) or options.get("device") is None:
            return function(*args, **options)
        device = options.pop("device")
        return function(*args, **options).to(device)


def _run(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run an operation on the numbers, and say of what comes out where it is."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, OtherTensor)]
    here = [tensor for tensor in tensors if not isinstance(tensor, OtherTensor) and tensor.dim()]
    if there and here and function not in _MOVES | _TAKE_INDICES:
        raise RuntimeError(f"{function}: tensors of two devices")
    wanted = kwargs.get("device")
    goes_there = bool(there) if wanted is None else torch.device(wanted) == OTHER
    if function is torch.ops.aten.copy_.default:
        goes_there = isinstance(args[0], OtherTensor)
    inner_args, inner_kwargs = tree_map_only(OtherTensor, lambda tensor: tensor.inner, (args, dict(kwargs)))
    if wanted is not None:
        inner_kwargs["device"] = torch.device("cpu")
    found = function(*inner_args, **inner_kwargs)
    if function is torch.ops.aten._local_scalar_dense.default or not goes_there:
        return found
    if function._schema.is_mutable:
        return _changed(function._schema, args, kwargs)
    with torch.inference_mode(False):
        return tree_map_only(Tensor, OtherTensor, found)


def _changed(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the very arguments that an operation has changed, as far as it returns them."""
    by_name = {
        tuple(argument.alias_info.before_set): args[place] if place < len(args) else kwargs.get(argument.name)
        for place, argument in enumerate(schema.arguments)
        if argument.alias_info is not None
    }
    found = tuple(by_name[tuple(returned.alias_info.before_set)] for returned in schema.returns)
    return found[0] if len(found) == 1 else found or None
