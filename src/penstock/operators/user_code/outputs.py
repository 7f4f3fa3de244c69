"""Options and results of user functions: an entry per output."""

from collections.abc import Sequence
from typing import Any, cast

from penstock.errors import DefinitionError, PenstockError
from penstock.operators.user_code.function_identity import FunctionIdentity


def per_output(name: str, value: Any, count: int, *, partial: bool = False) -> list[Any]:
    """Return a value for each output.

    Args:
        name: Name of the user's argument, for the message.
        value: One value for all outputs, or a list with one per output.
        count: Number of outputs.
        partial: True if a list may leave out the last outputs, which then get None.

    Raises:
        DefinitionError: The list has another length.
    """
    if not isinstance(value, list | tuple):
        return [value] * count
    values = list(cast(Sequence[Any], value))
    missing = count - len(values)
    if missing < 0 or (missing and not partial):
        raise DefinitionError(
            f"{name} must have one entry for all outputs, or one per output",
            given=f"{len(values)} entries",
            expected=f"{'up to ' if partial else ''}{count}",
        )
    return [*values, *[None] * missing]


def list_outputs(
    code: FunctionIdentity, result: Any, count: int, error: type[PenstockError], sequences: Any = (tuple, list)
) -> list[Any]:
    """Return the result of a user function as a list with an entry per output.

    Args:
        code: The function.
        result: Its result.
        count: Number of outputs.
        error: Class of the error for another number of outputs.
        sequences: Type or types that hold several outputs.
    """
    if count == 0:
        return []
    outputs = list(cast(Sequence[Any], result)) if isinstance(result, sequences) else [result]
    if len(outputs) != count or any(output is None for output in outputs):
        raise error(
            f"{code} must return as many outputs as num_outputs says",
            given=f"{0 if result is None else len(outputs)} outputs",
            expected=count,
        )
    return outputs
