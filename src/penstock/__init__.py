"""Data pipelines that feed JAX, in the vocabulary of NVIDIA DALI.

Declare a pipeline once, and iterate over batches that are global `jax.Array`s on your devices:

>>> import numpy as np
>>> from penstock import data_iterator, fn
>>> @data_iterator
... def training_data(images, labels):
...     images, labels = fn.readers.arrays((images, labels), random_shuffle=True)
...     return {"images": fn.crop_mirror_normalize(images, std=255.0, mirror=fn.random.coin_flip()), "labels": labels}
>>> pixels, classes = np.zeros((6, 8, 8, 3), np.uint8), np.arange(6, dtype=np.int32)
>>> for batch in training_data(images=pixels, labels=classes, batch_size=3, seed=1):
...     print(batch["images"].shape, batch["labels"].shape)
(3, 3, 8, 8) (3,)
(3, 3, 8, 8) (3,)

The names that you need:

* `data_iterator`: turn a function into a factory of iterators over its batches.
* `peekable_data_iterator`: the same, with `peek`, as `clu` has it.
* `DataIterator`: the iterator, with `get_state`, `set_state`, `stats` and `explain`.
* `LastBatchPolicy`: what to do with the last batch of an epoch if the data do not fill it.
* `fn`: the operators: readers, decoders, augmentations, random numbers.
* `types`: data types, image types, interpolation.
* `math`: mathematical functions of values.
* `Batch`, `Generator`: data and random numbers of operators that are called outside of a pipeline.
* `show`: draw a batch.
* `trace`: record what the threads do, for Perfetto.
* `dynamic`: DALI's dynamic mode, by changed imports.
* `pipeline_def`: turn a function into a factory of pipelines, as in DALI.
* `Pipeline`: a pipeline that you run batch by batch, as in DALI.
* `train`: training loop, checkpoints, evaluation.

Batches do not depend on the number of threads, devices or processes. Names load when you first use them:
`import penstock` imports neither JAX nor NumPy, and `import penstock.sources` in a worker process does not import JAX.
"""

import importlib
import sys
from types import ModuleType

__version__ = "0.1.0"

# Module of each public name, as in the stub beside this file. JAX takes most of a second to import, so no module loads
# before its name is used.
_HOMES = {
    "Batch": "penstock.eager",
    "DALIGenericIterator": "penstock.iterate",
    "DALIGenericPeekableIterator": "penstock.iterate",
    "DataIterator": "penstock.iterate",
    "Generator": "penstock.eager",
    "LastBatchPolicy": "penstock.types",
    "PeekableDataIterator": "penstock.iterate",
    "Pipeline": "penstock.pipeline",
    "data_iterator": "penstock.iterate",
    "newaxis": "penstock.types",
    "peekable_data_iterator": "penstock.iterate",
    "pipeline_def": "penstock.pipeline",
    "show": "penstock.pictures",
    "trace": "penstock.diagnose",
}
_MODULES = (
    "backend",
    "backend_impl",
    "data_node",
    "dynamic",
    "errors",
    "experimental",
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

__all__ = [*_HOMES, *_MODULES]  # noqa: PLE0604  # all strings  # pyright: ignore[reportUnsupportedDunderAll]

# IPython calls these for `%load_ext penstock`.
_NOTEBOOK_HOOKS = ("load_ipython_extension", "unload_ipython_extension")


class _DaliImportHook:
    """Import finder that refuses modules which only DALI has, and names the alternative.

    A module's `__getattr__` handles ``from penstock.plugin import pytorch``, but not ``import
    penstock.plugin.pytorch``.
    """

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """Refuse a module of the table. For other names, Python's own error follows."""
        package, _, module = name.partition(".")
        if package == __name__ and module:
            _unsupported().check_module(module)


# Last in the list, so that it only sees modules that do not exist.
sys.meta_path.append(_DaliImportHook)


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"penstock.{name}")
    if name in _NOTEBOOK_HOOKS:
        return getattr(importlib.import_module("penstock.pictures.notebook_extension"), name)
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise _unsupported().absence_error("", name)


def _unsupported() -> ModuleType:
    """Return the module with the table of DALI's names. It imports NumPy, which takes longer than all of this file."""
    return importlib.import_module("penstock.core.unsupported")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
