"""DALI's `nvidia.dali.plugin.base_iterator`."""

from typing import Any, NoReturn

from penstock.core import user_call_site
from penstock.errors import UsageError
from penstock.types import LastBatchPolicy as LastBatchPolicy


class _DaliBaseIterator:
    """Placeholder for programs that import the name. Deriving from it or calling it raises `UsageError`."""

    def __new__(cls, *_args: Any, **_options: Any) -> NoReturn:
        raise _usage_error()

    def __init_subclass__(cls, **_options: Any) -> NoReturn:
        raise _usage_error()


def _usage_error() -> UsageError:
    return UsageError(
        "_DaliBaseIterator, the internal base of DALI's iterators, does not exist here",
        fix="derive from penstock.plugin.jax.DALIGenericIterator, or loop over pipeline.run()",
        where=user_call_site(),
    )
