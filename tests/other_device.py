"""A simulated device, to find operations that would mix GPU and CPU tensors.

Tensors after `to(OTHER)` report the device OTHER, but their values are stored on the CPU. An operation on tensors of
both devices fails, as on a GPU. As on a GPU, CPU scalars, copies between devices, and CPU indices are allowed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

OTHER = torch.device("meta")
"""A device type that every build of torch supports and that nmt does not use."""

_MOVES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}
_INDEXING = {
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put_.default,
    torch.ops.aten._index_put_impl_.default,
}


class OtherTensor(Tensor):
    """A tensor on the simulated device; `inner` is the CPU tensor with its values."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "OtherTensor":
        layout = {"strides": inner.stride(), "storage_offset": inner.storage_offset(), "dtype": inner.dtype}
        tensor = Tensor._make_wrapper_subclass(
            cls, inner.size(), device=OTHER, requires_grad=inner.requires_grad, **layout
        )
        tensor.inner = inner
        return tensor

    def tolist(self) -> Any:
        OtherDevice.transfers["received"].append(self.numel())
        return self.inner.tolist()

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        return self.detach()

    @data.setter
    def data(self, view: "OtherTensor") -> None:
        self.inner = view.inner

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _run(function, args, kwargs or {})


class OtherDevice:
    """Context in which the simulated device is available; `transfers` are the sizes of what is copied or read."""

    transfers: ClassVar[dict[str, list[int]]] = {}

    def __enter__(self) -> "OtherDevice":
        self.transfers.update(sent=[], received=[])
        # otherwise moving a module would untie tied weights
        torch.__future__.set_swap_module_params_on_conversion(True)
        self._modes = (_ConstructorMode(), _DispatchMode())
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*error)
        torch.__future__.set_swap_module_params_on_conversion(False)


class _DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(
        self, function: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _run(function, args, kwargs or {})


class _ConstructorMode(TorchFunctionMode):
    """Create tensors of Python numbers on the CPU and copy them, because dispatch modes see only the copy."""

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
    """Run an operation on the CPU tensors, and wrap the results that belong to the simulated device."""
    tensors = list(_tensors((*args, *kwargs.values())))
    other_tensors = [tensor for tensor in tensors if isinstance(tensor, OtherTensor)]
    cpu_tensors = [tensor for tensor in tensors if not isinstance(tensor, OtherTensor) and tensor.dim()]
    if other_tensors and cpu_tensors and function not in _MOVES | _INDEXING:
        raise RuntimeError(f"{function}: tensors of two devices")
    requested = kwargs.get("device")
    on_other_device = bool(other_tensors) if requested is None else torch.device(requested) == OTHER
    if function is torch.ops.aten.copy_.default:
        on_other_device = isinstance(args[0], OtherTensor)
    moved = args[1] if function is torch.ops.aten.copy_.default else args[0] if function in _MOVES else None
    if function is torch.ops.aten._local_scalar_dense.default and other_tensors:
        OtherDevice.transfers["received"].append(1)
    elif moved is not None and isinstance(moved, OtherTensor) != on_other_device:
        OtherDevice.transfers["sent" if on_other_device else "received"].append(moved.numel())
    inner_args = _mapped(args, OtherTensor, lambda tensor: tensor.inner)
    inner_kwargs = {key: _mapped(value, OtherTensor, lambda tensor: tensor.inner) for key, value in kwargs.items()}
    if requested is not None:
        inner_kwargs["device"] = torch.device("cpu")
    result = function(*inner_args, **inner_kwargs)
    if function is torch.ops.aten._local_scalar_dense.default or not on_other_device:
        return result
    if function._schema.is_mutable:
        return _mutated_arguments(function._schema, args, kwargs)
    with torch.inference_mode(False):
        return _mapped(result, Tensor, OtherTensor)


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield all tensors in nested lists and tuples. (The functions of torch for trees are several times slower.)"""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _mapped(value: Any, kind: type[Tensor], function: Callable[[Any], Any]) -> Any:
    """Return nested lists and tuples with a function applied to all tensors of one class."""
    if isinstance(value, kind):
        return function(value)
    return type(value)([_mapped(item, kind, function) for item in value]) if isinstance(value, (list, tuple)) else value


def _mutated_arguments(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the arguments that a mutating operation changes and returns."""
    by_name = {
        tuple(argument.alias_info.before_set): args[place] if place < len(args) else kwargs.get(argument.name)
        for place, argument in enumerate(schema.arguments)
        if argument.alias_info is not None
    }
    result = tuple(by_name[tuple(returned.alias_info.before_set)] for returned in schema.returns)
    return result[0] if len(result) == 1 else result or None
