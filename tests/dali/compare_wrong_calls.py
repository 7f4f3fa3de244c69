"""Wrong calls in DALI and Penstock: prints the calls that DALI refuses and Penstock accepts.

    PYTHONPATH=src:tests/operators python tests/dali/compare_wrong_calls.py SEED COUNT [OPERATOR]

Not a test: each call of DALI runs in a forked process, because some of them crash or never end. `COUNT` calls are
compared 1,000 at a time, with the seeds `SEED`, `SEED` + 1, ..., each in a process of its own.

Calls that Penstock accepts on purpose are counted, not printed: see `WIDER`.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from nvidia import dali
from wrong_calls import Call, calls, function_of, nodes_of

from penstock import Pipeline, types
from penstock.errors import PenstockError
from penstock.graph.tracing.registry import lookup

SECONDS = 8
MEMORY = 20 << 30

# Operators whose functions or files DALI needs in another form.
LEFT_OUT = (
    "dump_image",
    "dl_tensor_",
    "experimental",
    "external_source",
    "follow.",
    "inputs.",
    "jax_function",
    "numba_",
)
LEFT_OUT += ("numpy_function", "python_function", "readers.")

# Arguments that say nothing about the result, and are checked less by Penstock.
HINTS = {"bytes_per_sample_hint", "device", "name"}

CHUNK = 1000  # calls per process

# What Penstock accepts on purpose, by the reason of DALI's refusal. docs/how-to/migrate/dali.md lists it.
WIDER = {
    "numbers of another dtype": "Calling type does not match|Unexpected type of argument|invalid literal|real number",
    "dtypes": "nsupported (input |output |data )*types?|Not supported output type|is currently not supported",
    "layouts and ranks": "allowed layouts",
    "nested lists as data": "convertible to constant nodes",
    "arguments of Penstock's own": "is not defined for operator",
    "numbers that apply to all axes": "other arguments suggest a 1D transform",
    "negative axes": "axis cannot be negative",
}


def as_dali(value: Any) -> Any:
    """Return a value in DALI's types."""
    if isinstance(value, types.DALIDataType):
        return dali.types.DALIDataType(int(value)) if value in range(-1, 25) else value
    if isinstance(value, types.DALIImageType):
        return dali.types.DALIImageType(int(value))
    if isinstance(value, types.DALIInterpType):
        return dali.types.DALIInterpType(int(value))
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return 3 if isinstance(value, types.Constant) else value


def run_dali(call: Call) -> None:
    """Run one batch of a call in DALI."""
    columns, layouts = call.inputs()
    with dali.Pipeline(4, 1, None, seed=1, prefetch_queue_depth=1) as pipeline:
        nodes = [
            dali.fn.external_source(source=[[np.asarray(item, order="C") for item in column]], layout=layout or None)
            for column, layout in zip(columns, layouts, strict=True)
        ]
        result = call.make(function_of(call, dali.fn), nodes, as_dali)
        pipeline.set_outputs(*(result if isinstance(result, list | tuple) else [result]))
    pipeline.build()
    pipeline.run()


def run_penstock(call: Call) -> None:
    """Run one batch of a call in Penstock."""
    with Pipeline(4, prefetch_queue_depth=1) as pipeline:
        result = call.make(lookup(call.use.operator), nodes_of(call))
        pipeline.set_outputs(*(result if isinstance(result, list | tuple) else [result]))
    pipeline.run()


def outcome(run: Callable[[Call], None], call: Call) -> str:
    """Return "" if a call is accepted, or why it is not; computed in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        text = ""
        try:
            run(call)
        except BaseException as error:  # noqa: BLE001  # the error is the outcome
            text = f"{type(error).__name__}: {error}".partition("encountered:")[-1] or str(error) or repr(error)
        os.write(writing, text.encode()[:2000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return f"ended by signal {status}" if status else text


def compared(call: Call) -> bool:
    """Return True if a call means the same in both libraries."""
    values = [*call.args, *call.kwargs.values()]
    if (
        call.use.operator.startswith(LEFT_OUT)
        or HINTS & set(call.changed)
        or "gpu" in str(call)
        or "mixed" in str(call)
    ):
        return False
    # DALI takes None as "not given" in any place, knows no classes of NumPy, and allocates what it is told.
    numbers = [abs(value) for value in values if isinstance(value, int | float)]
    if any(value is None or isinstance(value, type) for value in values) or max(numbers, default=0) > 1e9:
        return False
    try:
        return bool(function_of(call, dali.fn))
    except AttributeError:
        return False


def main() -> None:
    """Compare calls, those of one seed here and more in other processes."""
    seed, count, only = int(sys.argv[1]), int(sys.argv[2]), (sys.argv[3:] or [""])[0]
    if count <= CHUNK:
        compare(seed, count, only)
        return
    for number, start in enumerate(range(0, count, CHUNK)):
        arguments = (str(seed + number), str(min(CHUNK, count - start)), only)
        subprocess.run([sys.executable, __file__, *arguments], check=True, timeout=SECONDS * CHUNK)


def compare(seed: int, count: int, only: str) -> None:
    """Compare the calls of a seed."""
    warnings.simplefilter("ignore")
    os.chdir(tempfile.mkdtemp())
    valid: dict[int, bool] = {}
    results: Counter[str] = Counter()
    for call in calls(seed, count):
        if not compared(call) or only not in call.use.operator:
            continue
        if id(call.use) not in valid:
            valid[id(call.use)] = not outcome(run_dali, Call(call.use, call.use.args, call.use.kwargs, ()))
        if not valid[id(call.use)]:
            results["valid in Penstock only"] += 1
            continue
        try:
            with Pipeline(4):
                call.make(lookup(call.use.operator), nodes_of(call))
        except PenstockError:
            results["refused while tracing"] += 1
            continue
        theirs = outcome(run_dali, call)
        ours = outcome(run_penstock, call) if theirs else ""
        wider = next((name for name, reason in WIDER.items() if re.search(reason, theirs)), "")
        result = "accepted by both" if not theirs else "refused at run time" if ours else "accepted by Penstock only"
        results[f"{result}: {wider}" if wider and not ours else result] += 1
        if theirs and not ours and not wider:
            print(f"{','.join(call.changed)}: {call}\n    {' '.join(theirs.split())[:300]}", flush=True)
    print(dict(results))


if __name__ == "__main__":
    main()
