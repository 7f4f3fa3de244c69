"""Work that process 0 does for all processes of a job."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from penstock.engine.jobs.startup_exchange import exchange
from penstock.errors import CheckpointError, StateError


def on_process_0(act: Callable[[], Any]) -> Any:
    """Call a function on process 0 and return its result, or raise its error, in all processes."""
    return run_on_process_0(act, jax.process_index() == 0, lambda message: exchange(jax.devices(), message))


def run_on_process_0(act: Callable[[], Any], first: bool, tell: Callable[[Any], Sequence[Any]]) -> Any:
    """Call a function on process 0 and share its result, or its error, with all processes.

    Args:
        act: Function to call. Its result must be JSON values.
        first: True on process 0.
        tell: Function that exchanges a message with all processes and returns all messages, by process index.
    """
    outcome, error = None, None
    if first:
        try:
            outcome = act()
        except (CheckpointError, StateError) as raised:
            error = raised
    message = tell({"found": outcome, "error": error and [type(error).__name__, str(error)]})[0]
    # Process 0 also raises only after the exchange. Otherwise the other processes would wait for its message forever.
    if error is not None:
        raise error
    if message["error"] is not None:
        name, text = message["error"]
        raise {"CheckpointError": CheckpointError, "StateError": StateError}[name](f"in process 0: {text}")
    return message["found"]
