"""DALI's decorators for iterators, with DALI's defaults.

Four threads, the first device, endless without a name, and outputs without a name are left out.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from penstock import iterate
from penstock.pipeline.pipeline import DEFAULT_THREADS

F = TypeVar("F", bound=Callable[..., Any])


def with_dali_defaults(decorator: F) -> F:
    """Return a decorator for iterators with DALI's defaults.

    Args:
        decorator: `penstock.data_iterator` or `penstock.peekable_data_iterator`.
    """
    later = list(inspect.signature(decorator).parameters)[3:]

    @functools.wraps(decorator)
    def data_iterator(pipeline_fn: Any = None, output_map: Any = (), size: Any = -1, *args: Any, **options: Any) -> Any:
        defaults: dict[str, Any] = {"num_threads": DEFAULT_THREADS}
        named = {**dict(zip(later, args, strict=False)), **options}
        if named.get("sharding") is None and named.get("devices") is None:
            defaults["device_id"] = None  # DALI's rule: the default device, without a warning
        if callable(pipeline_fn):
            return decorator(_with_defaults(pipeline_fn, defaults), output_map, size, *args, **options)
        decorate = decorator(pipeline_fn, output_map, size, *args, **options)
        return lambda function: decorate(_with_defaults(function, defaults))

    return cast(F, data_iterator)


def _with_defaults(function: Callable[..., Any], defaults: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a definition with default arguments of its pipelines, in the form that `pipeline_def` gives it."""

    @functools.wraps(function)
    def definition(*args: Any, **arguments: Any) -> Any:
        return function(*args, **arguments)

    vars(definition).update(
        definition=getattr(function, "definition", function),
        defaults={**defaults, **getattr(function, "defaults", {})},
        may_leave_outputs_out=True,
    )
    return definition


data_iterator = with_dali_defaults(iterate.data_iterator)
peekable_data_iterator = with_dali_defaults(iterate.peekable_data_iterator)
