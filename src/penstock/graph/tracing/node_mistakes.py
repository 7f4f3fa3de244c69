"""Notes on errors of Python, NumPy and JAX that come from using a node as if it were an array."""

from __future__ import annotations

import inspect
import re
from types import CodeType

from penstock.errors import PenstockError

# Our code for methods of arrays and tensors that users look for on a node.
_METHODS = {
    "T": "fn.transpose(node, perm=[...])",
    "astype": "fn.cast(node, dtype=types.FLOAT)",
    "clip": "penstock.math.clamp(node, low, high)",
    "cuda": "node.gpu()",
    "flatten": "fn.reshape(node, shape=[-1])",
    "float": "fn.cast(node, dtype=types.FLOAT)",
    "item": "iterate, and read the values of a batch",
    "max": "fn.reductions.max(node)",
    "mean": "fn.reductions.mean(node)",
    "min": "fn.reductions.min(node)",
    "numpy": "iterate, and call numpy.asarray on the arrays of a batch",
    "permute": "fn.transpose(node, perm=[...])",
    "reshape": "fn.reshape(node, shape=[...])",
    "size": "node.shape(), a node with the extents of each sample",
    "squeeze": "fn.squeeze(node, axes=[...])",
    "std": "fn.reductions.std_dev(node, mean)",
    "sum": "fn.reductions.sum(node)",
    "to": "node.gpu(), or fn.cast(node, dtype=...)",
    "transpose": "fn.transpose(node, perm=[...])",
}

_MEANING = "A node stands for a value of every batch; it has no value while the definition is traced."

_FUNCTIONS = (
    "penstock.math has sin, exp, sqrt and others for nodes; fn.jax_function(f)(node) calls your function with JAX, "
    "fn.python_function(node, function=f) with NumPy"
)


# Code of functions in which conditions on nodes work, which `penstock.graph.conditionals` adds.
converted_code: set[CodeType] = set()


def fix_of_conditions() -> str:
    """Return the fix for code that asks for the truth of a node: Python does so in more places than are converted."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code not in converted_code:
        frame = frame.f_back
    functions = "penstock.math.max and min for max() and min()"
    if frame is None:
        choice = "enable_conditionals=True in the decorator: then if, and, or, not choose for each sample"
        return f"{choice}; {functions}"
    return (
        "if, and, or, not, which choose for each sample; while, assert, bool(), any(), all(), properties, generators, "
        f"and functions without source or with do_not_convert need one value for all samples; {functions}"
    )


def fix_of_function(name: str) -> str:
    """Return the fix for a call of a function of NumPy on a node."""
    return _METHODS.get(name, _FUNCTIONS)


def explain(error: Exception) -> None:
    """Add a note to an error about a node: its cause, and the code to write instead. Other errors stay as they are."""
    message = str(error)
    if isinstance(error, PenstockError):  # it has a fix of its own
        return
    if "DataNode" not in message or any(_MEANING in note for note in getattr(error, "__notes__", ())):
        return
    if match := re.search(r"has no attribute '(\w+)'", message):
        fix = _METHODS.get(match.group(1), "dir(fn) lists the operators; penstock.math has functions of numbers")
    elif "iterable" in message:
        fix = (
            "use node[0], node[1], ... for parts of each sample; operators with several outputs return a list of nodes"
        )
    else:
        fix = _FUNCTIONS
    error.add_note(f"{_MEANING}\n  fix:      {fix}")
