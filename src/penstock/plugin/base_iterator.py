"""DALI's `nvidia.dali.plugin.base_iterator`."""

from typing import Any, NoReturn

from penstock.core.call_site import user_call_site
from penstock.errors import UsageError
from penstock.types import LastBatchPolicy as LastBatchPolicy


class _DaliBaseIterator:
    """A name that programs import from DALI, most of them without need: whoever derives from it learns what to do."""

    def __new__(cls, *_args: Any, **_options: Any) -> NoReturn:
        raise _refused()

    def __init_subclass__(cls, **_options: Any) -> NoReturn:
        raise _refused()


def _refused() -> UsageError:
    return UsageError(
        "_DaliBaseIterator, the inner base of DALI's iterators, is not offered",
        fix="derive from penstock.plugin.jax.DALIGenericIterator, or loop over pipeline.run()",
        where=user_call_site(),
    )
