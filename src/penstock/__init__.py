"""Penstock: image pipelines that feed JAX.

Declare a pipeline once, in the vocabulary of NVIDIA DALI; iterate over batches that are already global `jax.Array`s,
laid out on your mesh. The batches are the same whatever the number of threads, devices or processes.

Names are loaded when they are first used: `import penstock.sources` in a worker process does not import JAX.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from penstock.core.unsupported import DaliImportHook, absence_error

if TYPE_CHECKING:
    from penstock import backend as backend
    from penstock import backend_impl as backend_impl
    from penstock import data_node as data_node
    from penstock import extend as extend
    from penstock import fn as fn
    from penstock import math as math
    from penstock import ops as ops
    from penstock import pipeline as pipeline
    from penstock import plugin as plugin
    from penstock import tensors as tensors
    from penstock import tfrecord as tfrecord
    from penstock import train as train
    from penstock import types as types
    from penstock.iterate import DALIGenericIterator as DALIGenericIterator
    from penstock.iterate import DALIGenericPeekableIterator as DALIGenericPeekableIterator
    from penstock.iterate import DataIterator as DataIterator
    from penstock.iterate import PeekableDataIterator as PeekableDataIterator
    from penstock.iterate import data_iterator as data_iterator
    from penstock.iterate import peekable_data_iterator as peekable_data_iterator
    from penstock.pipeline import Pipeline as Pipeline
    from penstock.pipeline import pipeline_def as pipeline_def
    from penstock.types import LastBatchPolicy as LastBatchPolicy
    from penstock.types import newaxis as newaxis

__version__ = "0.1.0"

_HOMES = {
    "DALIGenericIterator": "penstock.iterate",
    "DALIGenericPeekableIterator": "penstock.iterate",
    "DataIterator": "penstock.iterate",
    "LastBatchPolicy": "penstock.types",
    "PeekableDataIterator": "penstock.iterate",
    "Pipeline": "penstock.pipeline",
    "data_iterator": "penstock.iterate",
    "newaxis": "penstock.types",
    "peekable_data_iterator": "penstock.iterate",
    "pipeline_def": "penstock.pipeline",
}
_MODULES = (
    "backend",
    "backend_impl",
    "data_node",
    "extend",
    "fn",
    "math",
    "ops",
    "pipeline",
    "plugin",
    "tensors",
    "tfrecord",
    "train",
    "types",
)


sys.meta_path.append(DaliImportHook)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"penstock.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise absence_error("", name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_MODULES, "__version__"])
