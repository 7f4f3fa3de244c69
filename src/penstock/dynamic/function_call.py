"""Operators of dynamic mode: functions that take tensors and batches, with DALI's calling convention."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from penstock.core import with_call_site
from penstock.dynamic.dynamic_tensor import Batch, Tensor
from penstock.dynamic.element_type import DType
from penstock.dynamic.random_state import check_rng
from penstock.dynamic.tensor_arithmetic import common_batch_size, to_samples
from penstock.dynamic.tensor_conversion import as_batch, as_tensor, check_device
from penstock.eager import Generator
from penstock.eager.batch import Batch as Samples
from penstock.eager.call_data import is_per_sample
from penstock.eager.call_form import call_form
from penstock.eager.eager_call import call_on_rows
from penstock.errors import ArgumentTypeError, DefinitionError, about
from penstock.graph import OperatorFunction
from penstock.graph.tracing.registry import lookup

# Arguments of every operator in a pipeline that a call does not have.
_ONLY_IN_PIPELINES = ("name", "preserve", "seed", "bytes_per_sample_hint")


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
    for key in _ONLY_IN_PIPELINES:
        if key in arguments:
            raise ArgumentTypeError(f"unknown argument {key}", fix="rng=random.RNG(7)" if key == "seed" else None)
    if rng is not None and not form.own_seed:
        raise ArgumentTypeError("the operator draws no random numbers", given="rng=")
    values = [value if isinstance(value, Batch) else as_tensor(value) for value in inputs]
    named = {key: value for key, value in arguments.items() if value is not None}
    is_batch = batch_size is not None or any(isinstance(value, Batch) for value in (*values, *named.values()))
    rows = common_batch_size((*values, *named.values()), batch_size)
    for key, value in named.items():
        named[key] = _argument(form, key, value, rows)
    if form.own_seed:
        named["rng"] = Generator(check_rng(rng).call_seed())
    result = call_on_rows(operator, [to_samples(value, rows) for value in values], named, rows)
    if isinstance(result, list | tuple):
        return tuple(_deliver(item, is_batch=is_batch) for item in cast(list[Any], result))
    return _deliver(result, is_batch=is_batch)


def _deliver(result: Samples, *, is_batch: bool) -> Any:
    return Batch(result) if is_batch else Tensor(result[0], result.layout)


def _argument(form: Any, key: str, value: Any, rows: int) -> Any:
    """Return an argument as operators take it."""
    if isinstance(value, DType):
        return value.numpy
    if isinstance(value, Batch | Tensor) or hasattr(value, "__array__"):
        if key not in form.node_arguments:
            raise ArgumentTypeError(
                f"{key} is a constant", given=f"a {type(value).__name__}", expected="a Python value"
            )
        return to_samples(value if isinstance(value, Batch) else as_tensor(value), rows)
    if key in form.node_arguments and is_per_sample(form.hints[key], value, rows):
        raise ArgumentTypeError(f"a list is one value of {key} for all samples", fix=f"{key}=batch([...])")
    return value


@with_call_site
def imread(filepaths: Any, /, *, device: Any = "cpu", **arguments: Any) -> Any:
    """Read and decode image files.

    Args:
        filepaths: A path, or a list of paths, whose result is a `Batch`.
        device: A hint.
        **arguments: Constant arguments of `decoders.image`.

    Raises:
        FileNotFoundError: A file is missing.
        DefinitionError: The list is empty.
    """
    decode = function("decoders.image")
    if isinstance(filepaths, str | Path):
        return decode(np.frombuffer(Path(filepaths).read_bytes(), np.uint8), device=device, **arguments)
    return decode(
        as_batch([np.frombuffer(Path(path).read_bytes(), np.uint8) for path in filepaths]), device=device, **arguments
    )
