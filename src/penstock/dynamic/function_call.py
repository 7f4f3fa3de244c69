"""Operators of dynamic mode: functions that take tensors and batches, with DALI's calling convention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike, fspath
from typing import Any, cast

import numpy as np

from penstock.core import Array, with_call_site
from penstock.dynamic.body_call import NO_DRAWS, OperatorUse
from penstock.dynamic.dynamic_tensor import Batch, Tensor
from penstock.dynamic.element_type import DType
from penstock.dynamic.loop_capture import active_step
from penstock.dynamic.random_state import check_rng
from penstock.dynamic.tensor_arithmetic import common_batch_size, to_samples
from penstock.dynamic.tensor_conversion import as_batch, as_tensor, check_device
from penstock.eager import Generator
from penstock.eager.batch import Batch as Samples
from penstock.eager.call_data import is_per_sample
from penstock.eager.call_form import CallForm, call_form
from penstock.eager.eager_call import call_on_rows
from penstock.errors import ArgumentTypeError, DefinitionError, SourceError, SourceNotFoundError, about
from penstock.graph import OperatorFunction
from penstock.graph.tracing.registry import lookup
from penstock.sources.storage.local_bytes import read_file

# Arguments of every operator in pipelines and in `penstock.fn` that a call does not have, with what to write.
_ONLY_ELSEWHERE = {
    "name": None,
    "preserve": None,
    "seed": "rng=random.RNG(7)",
    "bytes_per_sample_hint": None,
    "layout": "layout= of tensor, as_tensor, batch or as_batch",
}


def function(name: str) -> Callable[..., Any]:
    """Return the function of an operator.

    Args:
        name: Name as `penstock.fn` spells it.
    """
    operator = lookup(name)

    def call(*inputs: Any, batch_size: int | None = None, device: Any = None, rng: Any = None, **arguments: Any) -> Any:
        with about(name):
            return _compute(operator, inputs, batch_size, device, rng, arguments)

    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    call.__doc__ = operator.__doc__
    return with_call_site(call)


def _compute(
    operator: OperatorFunction[..., Any],
    inputs: tuple[Any, ...],
    batch_size: int | None,
    device: Any,
    rng: Any,
    arguments: dict[str, Any],
) -> Any:
    if device == "mixed":
        raise DefinitionError("dynamic mode has no device 'mixed'", fix="device='gpu'")
    check_device(device)
    form = call_form(operator)
    _check_names(form, arguments, rng)
    values = [value if isinstance(value, Batch) else as_tensor(value) for value in inputs]
    named = {key: value for key, value in arguments.items() if value is not None}
    is_batch = batch_size is not None or any(isinstance(value, Batch) for value in (*values, *named.values()))
    if operator.name == "batch_permutation" and not is_batch:
        # Without it, operators compute one sample, whose permutation is always 0.
        raise DefinitionError("a permutation needs the number of samples", fix="batch_size=16")
    rows = common_batch_size((*values, *named.values()), batch_size)
    step = active_step()
    if step is not None:
        if is_batch and rows == step.rows:
            arguments = {
                key: value
                if isinstance(value, Batch) and key in form.node_arguments
                else _argument(form, key, value, rows)
                for key, value in named.items()
            }
            use = OperatorUse(operator, tuple(values), arguments, rng if form.own_seed else NO_DRAWS, call_on_rows)
            if (captured := step.apply(use)) is not None:
                return captured
        if form.own_seed:
            step.note_draw(check_rng(rng))
    for key, value in named.items():
        named[key] = _argument(form, key, value, rows)
    if form.own_seed:
        named["rng"] = Generator(check_rng(rng).call_seed())
    result = call_on_rows(operator, [to_samples(value, rows) for value in values], named, rows)
    if isinstance(result, list | tuple):
        return tuple(_deliver(item, is_batch=is_batch) for item in cast(list[Any], result))
    return _deliver(result, is_batch=is_batch)


def _check_names(form: CallForm, arguments: Mapping[str, Any], rng: Any) -> None:
    for key, fix in _ONLY_ELSEWHERE.items():
        if key in arguments and not (key == "layout" and form.own_layout):
            raise ArgumentTypeError(f"unknown argument {key}", fix=fix)
    if rng is not None and not form.own_seed:
        raise ArgumentTypeError("the operator draws no random numbers", given="rng=")


def _deliver(result: Samples, *, is_batch: bool) -> Any:
    return Batch.of(result) if is_batch else Tensor.of(result[0], result.layout)


def _argument(form: CallForm, key: str, value: Any, rows: int) -> Any:
    """Return an argument as operators take it."""
    if isinstance(value, DType):
        return value.numpy
    if key not in form.node_arguments and isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Batch) or _is_array(value):
        if key not in form.node_arguments:
            raise ArgumentTypeError(
                f"{key} is a constant", given=f"a {type(value).__name__}", expected="a Python value"
            )
        return to_samples(value if isinstance(value, Batch) else as_tensor(value), rows)
    value = _own_constant(value)
    if key in form.node_arguments and is_per_sample(form.hints[key], value, rows):
        raise ArgumentTypeError(f"a list is one value of {key} for all samples", fix=f"{key}=batch([...])")
    return value


def _is_array(value: Any) -> bool:
    # A class of NumPy, such as the dtype np.float32, has the method, too.
    return hasattr(value, "__array__") and not isinstance(value, type | Samples)


def _own_constant(value: Any) -> Any:
    """Return a constant that later writes into the caller's lists do not change, with numbers of Python in its lists.

    A captured loop keeps the constants of its first step. In `penstock.fn`, a list of arrays is a batch; here, it is
    one value.
    """
    if isinstance(value, list | tuple):
        items = [_plain(item) for item in cast(Iterable[Any], value)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in cast(Mapping[Any, Any], value).items()}
    return value


def _plain(item: Any) -> Any:
    """Return an item of a constant, with numbers of Python for an array."""
    if isinstance(item, np.generic):
        return item.item()
    if _is_array(item):
        return as_tensor(item).array.tolist()
    return _own_constant(item)


@with_call_site
def imread(filepaths: Any, /, *, device: Any = "cpu", **arguments: Any) -> Any:
    """Read and decode image files.

    Args:
        filepaths: A path, or a list of paths, whose result is a `Batch`. Also tensors with the bytes of paths.
        device: A hint.
        **arguments: Constant arguments of `decoders.image`.

    Raises:
        SourceNotFoundError: A file is missing.
        SourceError: A file cannot be read.
        DefinitionError: The list is empty.
    """
    check_device(device)
    files: Any
    if isinstance(filepaths, list | tuple | Batch):
        files = as_batch([_file_bytes(path) for path in cast(Iterable[Any], filepaths)])
    else:
        files = _file_bytes(filepaths)
    return function("decoders.image")(files, device=device, **arguments)


def _file_bytes(path: Any) -> Array:
    name = path if isinstance(path, str | PathLike) else as_tensor(path).array.tobytes().decode()
    try:
        return read_file(fspath(name))
    except FileNotFoundError:
        raise SourceNotFoundError(f"there is no file {str(name)!r}") from None
    except OSError as error:
        raise SourceError(f"the file {str(name)!r} cannot be read: {error.strerror}") from error
