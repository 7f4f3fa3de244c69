"""Operators as objects: made with some of their arguments, called with the others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from penstock.core.call_site import user_call_site
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.graph.tracing.registry import lookup

POSITIONAL: Mapping[str, tuple[str, ...]] = {
    "dl_tensor_python_function": ("function", "num_outputs", "device", "synchronize_stream", "batch_processing"),
    "external_source": ("source", "num_outputs"),
    "experimental.numba_function": ("run_fn", "out_types", "in_types", "outs_ndim", "ins_ndim", "setup_fn"),
    "jax_function": ("function", "num_outputs"),
    "numba_function": ("run_fn", "out_types", "in_types", "outs_ndim", "ins_ndim", "setup_fn"),
    "python_function": ("function", "num_outputs", "device", "batch_processing"),
    "readers.tfrecord": ("path", "index_path", "features"),
}
"""The arguments that DALI's classes take by position."""


class Operator:
    """An operator with the arguments that its uses share. Calling it on nodes is one use.

    Subclasses are made by `penstock.ops`, one for each operator of `penstock.fn`; `kind` is its name there.

    Args:
        *positional: where DALI's class takes arguments by position, those.
        **arguments: the operator's arguments, but for those that are nodes.

    Raises:
        ArgumentTypeError: the operator has no such argument.

    Example:
        >>> import penstock
        >>> from penstock import fn, ops, types
        >>> cast = ops.Cast(dtype=types.FLOAT)
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(cast(fn.readers.arrays([10, 20, 30])))
        >>> pipeline.run()[0].as_array().tolist()
        [10.0, 20.0]
    """

    kind: ClassVar[str] = ""

    def __init__(self, *positional: Any, **arguments: Any) -> None:
        names = POSITIONAL.get(self.kind, ())
        if len(positional) > len(names):
            raise ArgumentTypeError(
                f"ops.{type(self).__name__} takes its arguments by name",
                given=f"{len(positional)} by position",
                fix="inputs are given when the operator is called",
                where=user_call_site(),
            )
        self._arguments = dict(zip(names, positional, strict=False)) | arguments
        if self.kind == "external_source" and self._arguments.get("parallel"):
            self._arguments.setdefault("batch", False)  # as in DALI, where only the class does that
        lookup(self.kind).check_names(self._arguments)

    @property
    def device(self) -> str:
        """Where it was wanted, a placement hint: "cpu", "gpu" or "mixed"."""
        return self._arguments.get("device") or "cpu"

    @property
    def preserve(self) -> bool:
        """Whether it runs though nothing uses it."""
        return bool(self._arguments.get("preserve"))

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        """Use it in the definition that is being traced.

        Args:
            inputs: nodes or constants; a list of nodes stands for as many uses.
            arguments: nodes, and whatever was not given before, or as None; a `name` replaces the one that was.

        Returns:
            What the operator of `penstock.fn` returns.

        Raises:
            DefinitionError: an argument was given before.
        """
        made = {name: value for name, value in self._arguments.items() if value is not None}  # None stands for nothing
        given = {name: value for name, value in arguments.items() if value is not None}
        twice = sorted((made.keys() & given.keys()) - {"name"})
        if twice:
            raise DefinitionError(
                f"ops.{type(self).__name__}: {', '.join(twice)} was given when the operator was made",
                fix="give it once: to the class, or to the call",
                where=user_call_site(),
            )
        together = {**made, **given}
        if self.kind == "external_source" and not inputs and "source" not in together:
            return _fed_by_hand(together)
        return lookup(self.kind)(*inputs, **together)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items())
        return f"{type(self).__name__}({given})"


def _fed_by_hand(given: Mapping[str, Any]) -> Any:
    """An external source without a source; with `num_outputs`, which only the class takes then, a list of them."""
    count = given.get("num_outputs")
    if not isinstance(count, int) or given.get("name"):
        return lookup("external_source")(**given)
    each = [{name: value for name, value in given.items() if name != "num_outputs"} for _ in range(count)]
    for name in ("dtype", "layout", "ndim"):
        if isinstance(values := given.get(name), list | tuple):
            for number, arguments in enumerate(each):
                arguments[name] = values[number] if number < len(values) else None
    return [lookup("external_source")(**arguments) for arguments in each]


@functools.cache
def class_of(name: str, kind: str, module: str) -> type[Operator]:
    """The class of an operator, under a name of DALI's."""
    function = lookup(kind)
    return type(name, (Operator,), {"kind": kind, "__doc__": function.__doc__, "__module__": module})


class Compose:
    """Operators in a row: each is called with what the one before it returned.

    Args:
        op_list: them.

    Example:
        >>> import penstock
        >>> from penstock import fn, ops, types
        >>> double = ops.Compose([ops.Cast(dtype=types.INT32), lambda number: number * 2])
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(double(fn.readers.arrays([1.0, 2.0])))
        >>> pipeline.run()[0].as_array().tolist()
        [2, 4]
    """

    @check_annotations
    def __init__(self, op_list: Sequence[Callable[..., Any]]) -> None:
        if not op_list:
            raise ArgumentTypeError("ops.Compose needs at least one operator", where=user_call_site())
        self._operators = tuple(op_list)

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        """Call the operators one after the other; the first gets the arguments."""
        first, *others = self._operators
        result = first(*inputs, **arguments)
        for operator in others:
            result = operator(*result) if isinstance(result, list | tuple) else operator(result)
        return result
