"""Readers of rocAL's `amd.rocal.fn.readers`.

In rocAL, a reader lists the data, and the decoder receives the order and the shard. A reader here therefore returns its
arguments (`Files`), and the decoder adds the nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock import fn as core
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.graph import DataNode
from penstock.rocal import types
from penstock.rocal.operator_table import OPERATORS as _OPERATORS
from penstock.rocal.operator_table import meaning, passed_on, row
from penstock.rocal.pipeline import READER, ReaderOutputs, current_pipeline

# Arguments of penstock's readers that rocAL passes to the decoders, and to `cifar10`.
_ORDER = {"num_shards", "pad_last_batch", "random_shuffle", "shard_id"}
# All arguments of order and shard. The iterator takes `last_batch_policy`, `Files.read` refuses `shard_size`, and
# `stick_to_shard` has no effect because every shard is a slice of a global batch.
LOADER = _ORDER | {"last_batch_policy", "shard_size", "stick_to_shard"}


@dataclass(frozen=True)
class Files:
    """Arguments of a reader, from which the decoder creates the node.

    Args:
        name: Name of the reader in rocAL.
        arguments: Arguments of the reader by rocAL's names.
    """

    name: str
    arguments: Mapping[str, Any]

    def read(self, **loader: Any) -> DataNode:
        """Return the encoded images and register their labels with the pipeline.

        Raises:
            DefinitionError: The pipeline already has a reader, or `shard_size` is positive.
        """
        pipeline = current_pipeline()
        if pipeline.reading is not None:
            raise DefinitionError("a pipeline of rocAL's has one reader", fix="penstock.pipeline_def takes any number")
        # rocAL's default of -1 leaves the size of a shard unchanged.
        if loader.get("shard_size", -1) > 0:
            raise DefinitionError("shard_size is not offered: a shard is its part of every global batch")
        # Every reader in the table has one step: one reader of penstock.
        (step,) = row(self.name).steps
        order = {name: meaning(value) for name, value in loader.items() if name in _ORDER}
        # rocAL's decoders and `cifar10` pad the last batch unless the program says otherwise; DALI's readers do not.
        arguments = {"pad_last_batch": True, **passed_on(self.name, step, self.arguments), **order}
        data, labels = getattr(core.readers, step.core.rpartition(".")[2])(**arguments, name=READER)
        pipeline.reading = ReaderOutputs(labels, meaning(loader.get("last_batch_policy", types.LAST_BATCH_FILL)))
        return data


def file(file_root: Any, **options: Any) -> tuple[Files, list[Any]]:
    """Read encoded files with labels, one folder per class. Order and shard are arguments of the decoder.

    Args:
        file_root: Parent of the class folders.
        **options: Options ``file_filters``, ``file_list``, ``stick_to_shard``, ``pad_last_batch``.

    Returns:
        The input of a decoder, and an empty list: the pipeline appends the labels to its outputs.
    """
    return _note("readers.file", {"file_root": file_root, **options}), []


def caffe(path: Any, bbox: bool = False, **options: Any) -> tuple[Files, list[Any]]:
    """Read a Caffe LMDB of encoded images with classes. Order and shard are arguments of the decoder.

    Args:
        path: The folder of the LMDB.
        bbox: Not offered.
        **options: Options ``stick_to_shard``, ``pad_last_batch``.

    Returns:
        The input of a decoder, and an empty list: the pipeline appends the classes to its outputs.

    Raises:
        DefinitionError: `bbox` is True.
    """
    return _databases("readers.caffe", path, bbox, options)


def caffe2(path: Any, bbox: bool = False, **options: Any) -> tuple[Files, list[Any]]:
    """Read a Caffe2 LMDB of encoded images with labels. Order and shard are arguments of the decoder.

    Args:
        path: The folder of the LMDB.
        bbox: Not offered.
        **options: Options ``stick_to_shard``, ``pad_last_batch``.

    Returns:
        The input of a decoder, and an empty list: the pipeline appends the labels to its outputs.

    Raises:
        DefinitionError: `bbox` is True.
    """
    return _databases("readers.caffe2", path, bbox, options)


def _databases(name: str, path: Any, bbox: bool, options: Mapping[str, Any]) -> tuple[Files, list[Any]]:
    if bbox:
        raise DefinitionError("boxes are not offered yet", fix="bbox=False")
    return _note(name, {"path": path, **options}), []


def cifar10(*_inputs: Any, file_root: Any = "", **options: Any) -> DataNode:
    """Read the binary version of CIFAR-10. The pipeline appends the labels to its outputs.

    Args:
        file_root: Folder of the files.
        **options: Options ``filename_prefix``, ``random_shuffle``, ``shard_id``, ``num_shards``, ``last_batch_policy``,
            ``pad_last_batch``, and ``stick_to_shard``, which has no effect.

    Returns:
        Images, uint8 of shape (3, 32, 32).

    Raises:
        DefinitionError: `image_type` is not RGB_PLANAR.
    """
    if options.pop("image_type", types.RGB_PLANAR) is not types.RGB_PLANAR:
        raise DefinitionError("readers.cifar10 gives planar images, as the files have them", fix="fn.transpose")
    # The records need no decoder, so this reader takes order and shard and returns the images.
    loader = {name: options.pop(name) for name in tuple(options) if name in LOADER}
    return _note("readers.cifar10", {"file_root": file_root, **options}).read(**loader)


def _note(name: str, arguments: Mapping[str, Any]) -> Files:
    (step,) = row(name).steps
    # The decoder converts the arguments again. Here, a misspelled name is reported at the line of the reader.
    passed_on(name, step, arguments)
    return Files(name, arguments)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    # `row` raises for names that rocAL or penstock lacks. The error below is for developers: a row of the table is
    # offered, and this module has no function for it.
    row(f"readers.{name}")
    raise ArgumentTypeError(f"penstock has fn.readers.{name}; its row in penstock.rocal lacks a function")


def __dir__() -> list[str]:
    return sorted(
        name.partition(".")[2] for name, item in _OPERATORS.items() if name.startswith("readers.") and item.offered
    )
