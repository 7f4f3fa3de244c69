"""Names of DALI that penstock does not have, each with the alternative."""

import functools
import sys
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from penstock.core.call_site import user_call_site
from penstock.errors import MissingModuleError, UnknownNameError, nearest_names

_CUDA = "Penstock does not use CUDA itself: JAX owns the devices"
_JAX = "the iterators of penstock.plugin.jax give batches as jax.Arrays"
_MEMORY = "JAX and NumPy own the memory; there is nothing to tune"
_SCHEMA = "help(fn.…) and inspect.signature tell an operator's arguments"
_NATIVE = "Penstock does not load native code: docs/how-to/extend/operators.md shows how to write an operator"
_OWN = "an inner part of DALI that programs do not use"
_THREADS = "a hint of DALI's executor: num_threads says how many threads there are"
_VIDEO = "fn.readers.video reads clips of files, and fn.decoders.video decodes what fn.external_source gives"

_INNER = (
    "backend.DLDeviceType backend.ExternalContextCheckpoint backend.Init backend.IsDriverInitialized backend.OpSchema "
    "backend.OpSpec backend.Pipeline backend.PipelineDebug backend.SharedMem backend.Stream backend.check_cuda_runtime "
    "backend.cuda_checked backend.deprecation_warning backend.initialized internal "
    "pipeline.WorkerPool pipeline.dali_pickle pipeline.pipeline_tls pipeline.tls python_function_plugin "
    "reducers types.unique"
)

ABSENT: Mapping[str, str] = {
    **dict.fromkeys(_INNER.split(), _OWN),
    "backend.CUDAStreamSynchronize": _CUDA,
    "backend.CheckDLPackCapsule": "numpy.from_dlpack and jax.dlpack accept objects with __dlpack__",
    "backend.GetCxx11AbiFlag": _NATIVE,
    "backend.GetCUDA*": "jax.devices() tells the devices",
    "backend.GetSchema*": _SCHEMA,
    "backend.Get*Threshold": _MEMORY,
    "backend.Get*Factor": _MEMORY,
    "backend.Get*Version": "importlib.metadata.version tells the versions of packages",
    "backend.Load*": _NATIVE,
    "backend.Registered*": "dir(fn) tells the operators",
    "backend.SetCUDACurrentDevice": "the sharding of an iterator says which devices hold its batches",
    "backend.TryGetSchema": _SCHEMA,
    "experimental.dynamic.pytorch": "numpy.asarray or torch.from_dlpack takes a tensor",
    "experimental.torchvision": "the operators of penstock.fn, which docs/how-to/migrate/pytorch.md lists by transform",
    "fn._conditional": "write `if`, in a pipeline with enable_conditionals=True",
    **dict.fromkeys(
        ("fn.external_source(random_shuffle=)", "fn.external_source(shard_id=)", "fn.external_source(num_shards=)"),
        "fn.readers.items shuffles and shards what has a length and items by number",
    ),
    "external_source": "it is a module of DALI's inner parts: fn.external_source is the operator",
    "fn.optical_flow": "it needs NVIDIA's optical flow hardware; compute it in fn.jax_function",
    "Pipeline.add_sink": "give the operator preserve=True",
    "Pipeline.external_source_shm_statistics": "executor_statistics() tells what the stages have done",
    "Pipeline.input_feed_count": "feed_input waits for nothing, so nothing has to be counted",
    "Pipeline.output_stream": _CUDA,
    "Pipeline.pop_current": "leave the `with` statement",
    "Pipeline.push_current": "use `with pipeline:`",
    "Pipeline.save_graph_to_dot_file": "explain() shows the plan as text",
    "pickling": "leave @pickle_by_value out: worker processes get the code of functions that they cannot import",
    "plugin.jax.integration": "jax.numpy.asarray makes arrays of what pipeline.run() returns",
    "plugin.mxnet": _JAX,
    "plugin.paddle": _JAX,
    "plugin.pytorch": f"{_JAX}; torch.from_dlpack takes them, and what pipeline.run() returns",
    "plugin.tf": _JAX,
    "plugin.video": _VIDEO,
    "plugin_manager": _NATIVE,
    "sysconfig": _NATIVE,
    "data_node.not_iterable": _OWN,
    "OperatorConcurrency": _THREADS,
    "StreamPolicy": _CUDA,
    "pipeline.OperatorConcurrency": _THREADS,
    "pipeline.StreamPolicy": _CUDA,
    "tensors.Pipeline*Adapter": _OWN,
    "tensors.format_*": "print(batch)",
    "types.CUDAStream": _CUDA,
    "types.ConstantNode": "fn.constant(…), or types.Constant with a shape",
    "types.dali_type_converters": "to_dali_type knows the types of NumPy, JAX and PyTorch by name",
    "types.tfrec": "the module penstock.tfrecord",
}
"""Alternatives by the name without ``nvidia.dali``. A ``*`` matches any letters; exact names take precedence."""


def explain_absence(name: str) -> str | None:
    """Return the alternative to a name of DALI; None if the table does not have it.

    >>> explain_absence("backend.GetNppVersion")
    'importlib.metadata.version tells the versions of packages'
    """
    # The longest pattern is the most specific one.
    matches = [pattern for pattern in ABSENT if "*" in pattern and fnmatchcase(name, pattern)]
    return ABSENT.get(name) or (ABSENT[max(matches, key=len)] if matches else None)


def absence_error(owner: str, name: str) -> AttributeError:
    """Return the error for an unknown attribute, with the alternative if DALI has it.

    Args:
        owner: The module or class in DALI, without ``nvidia.dali``; "" for the package.
        name: The attribute.
    """
    full = f"{owner}.{name}".lstrip(".")
    # Python and its tools look up many private names, such as `__path__`, and expect a plain AttributeError.
    if name.startswith("_") or (fix := explain_absence(full)) is None:
        module = f"penstock.{owner}".rstrip(".")
        near = None if name.startswith("_") else nearest_names(name, dir(sys.modules.get(module)))
        message = f"{owner or 'penstock'!r} has no attribute {name!r}"
        return AttributeError(f"{message}; {near}" if near else message)
    return UnknownNameError(f"DALI's {full} is not offered", fix=fix, where=user_call_site())


def check_module(name: str) -> None:
    """Refuse a module that exists only in DALI.

    Args:
        name: Its name without ``nvidia.dali``.

    Raises:
        MissingModuleError: The table has it.
    """
    if (fix := explain_absence(name)) is not None:
        raise MissingModuleError(f"DALI's module {name} is not offered", fix=fix)


def module_getattr(module: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module of DALI's name, whose errors name the alternative."""

    def getattr_(name: str) -> Any:
        raise absence_error(module.removeprefix("penstock").lstrip("."), name)

    return getattr_


def refuse_attributes(kind: type, owner: str) -> None:
    """Add properties to a class that raise the error for the missing attributes of DALI's class `owner`."""
    for full in ABSENT:
        name = full.removeprefix(f"{owner}.")
        if name != full and not hasattr(kind, name):
            setattr(kind, name, property(functools.partial(_refuse, owner, name)))


def _refuse(owner: str, name: str, _instance: object) -> Any:
    raise absence_error(owner, name)
