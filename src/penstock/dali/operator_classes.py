"""Operator classes: constructed with some arguments, called with the others."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from penstock.core import user_call_site
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.graph import check_annotations, lookup

# Arguments that DALI's classes take by position.
POSITIONAL: Mapping[str, tuple[str, ...]] = {
    "dl_tensor_python_function": ("function", "num_outputs", "device", "synchronize_stream", "batch_processing"),
    "external_source": ("source", "num_outputs"),
    "experimental.numba_function": ("run_fn", "out_types", "in_types", "outs_ndim", "ins_ndim", "setup_fn"),
    "jax_function": ("function", "num_outputs"),
    "numba_function": ("run_fn", "out_types", "in_types", "outs_ndim", "ins_ndim", "setup_fn"),
    "python_function": ("function", "num_outputs", "device", "batch_processing"),
    "readers.tfrecord": ("path", "index_path", "features"),
}


class Operator:
    """Operator with the arguments that its calls share.

    `penstock.ops` creates a subclass for each operator of `penstock.fn`; `kind` is its name there.

    Args:
        *positional: Arguments that DALI's class takes by position.
        **arguments: Arguments of the operator, except nodes.

    Raises:
        ArgumentTypeError: The operator has no such argument.

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
        """Requested device, a placement hint: "cpu", "gpu" or "mixed"."""
        return self._arguments.get("device") or "cpu"

    @property
    def preserve(self) -> bool:
        """True if the operator runs although nothing uses its outputs."""
        return bool(self._arguments.get("preserve"))

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        """Call the operator in the current definition.

        Args:
            inputs: Nodes or constants. A list of nodes calls the operator once per node.
            arguments: Nodes, and arguments that the class did not receive, or as None. `name` may be given again.

        Returns:
            The outputs of the operator in `penstock.fn`.

        Raises:
            DefinitionError: The class received the argument already.
        """
        # As in DALI, None means that an argument is absent.
        own = {name: value for name, value in self._arguments.items() if value is not None}
        arguments = {name: value for name, value in arguments.items() if value is not None}
        twice = sorted((own.keys() & arguments.keys()) - {"name"})
        if twice:
            raise DefinitionError(
                f"ops.{type(self).__name__}: {', '.join(twice)} was given when the operator was made",
                fix="give it once: to the class, or to the call",
                where=user_call_site(),
            )
        together = own | arguments
        if self.kind == "external_source" and not inputs and "source" not in together:
            return _external_inputs(together)
        return lookup(self.kind)(*inputs, **together)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items())
        return f"{type(self).__name__}({arguments})"


def _external_inputs(arguments: Mapping[str, Any]) -> Any:
    """Return an external source to feed, or a list of them for `num_outputs`, as DALI's class does."""
    count = arguments.get("num_outputs")
    if not isinstance(count, int) or arguments.get("name"):
        return lookup("external_source")(**arguments)
    calls = [{name: value for name, value in arguments.items() if name != "num_outputs"} for _ in range(count)]
    # These may be lists with one item per output.
    for name in ("dtype", "layout", "ndim"):
        if isinstance(values := arguments.get(name), list | tuple):
            for number, call in enumerate(calls):
                call[name] = values[number] if number < len(values) else None
    return [lookup("external_source")(**call) for call in calls]


# Cached, so that `ops.Cast is ops.Cast`.
@functools.cache
def class_of(name: str, kind: str, module: str) -> type[Operator]:
    """Return the class of an operator, under its name in DALI."""
    function = lookup(kind)
    return type(name, (Operator,), {"kind": kind, "__doc__": function.__doc__, "__module__": module})


class Compose:
    """Sequence of operators: each one receives the outputs of the previous one.

    Args:
        op_list: The operators.

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
            raise ArgumentTypeError("ops.Compose needs at least one operator")
        self._operators = tuple(op_list)

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        """Call the operators in order. The first one receives the arguments."""
        first, *others = self._operators
        result = first(*inputs, **arguments)
        for operator in others:
            result = operator(*result) if isinstance(result, list | tuple) else operator(result)
        return result
