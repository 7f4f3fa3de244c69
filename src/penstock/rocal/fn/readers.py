"""rocAL's `amd.rocal.fn.readers`.

There a reader lists the data and a decoder reads them, in an order and for a shard that it is told. So a reader here
returns a note of what is to be read, and the decoder makes the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock import fn as core
from penstock.core.call_site import with_call_site
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.graph.tracing.trace import DataNode
from penstock.rocal import types
from penstock.rocal.operator_table import OPERATORS as _OPERATORS
from penstock.rocal.operator_table import ArgumentMapping, meaning, passed_on, row
from penstock.rocal.pipeline import READER, ReaderOutputs, current_pipeline

LOADER = {
    "last_batch_policy": ArgumentMapping(),
    "num_shards": ArgumentMapping("num_shards"),
    "pad_last_batch": ArgumentMapping("pad_last_batch"),
    "random_shuffle": ArgumentMapping("random_shuffle"),
    "shard_id": ArgumentMapping("shard_id"),
    "shard_size": ArgumentMapping(),
    "stick_to_shard": ArgumentMapping(),
}
"""Order and shard, which the decoders are told, and `cifar10`."""


@dataclass(frozen=True)
class Files:
    """Arguments of a reader, which the decoder runs.

    Args:
        name: the reader's name in rocAL.
        given: its arguments.
    """

    name: str
    given: Mapping[str, Any]

    def read(self, **loader: Any) -> DataNode:
        """Return the encoded images and register their labels with the pipeline.

        Raises:
            DefinitionError: the pipeline has a reader already, or shards are to have a size of their own.
        """
        pipeline = current_pipeline()
        if pipeline.reading is not None:
            raise DefinitionError("a pipeline of rocAL's has one reader", fix="penstock.pipeline_def takes any number")
        if loader.get("shard_size", -1) > 0:
            raise DefinitionError("shard_size is not offered: a shard is its part of every global batch")
        (step,) = row(self.name).steps
        message = {LOADER[item].core: meaning(value) for item, value in loader.items() if LOADER[item].core}
        arguments = {"pad_last_batch": True, **passed_on(self.name, step, self.given), **message}
        data, labels = getattr(core.readers, step.core.rpartition(".")[2])(**arguments, name=READER)
        pipeline.reading = ReaderOutputs(labels, meaning(loader.get("last_batch_policy", types.LAST_BATCH_FILL)))
        return data


def file(file_root: Any, **given: Any) -> tuple[Files, list[Any]]:
    """Read encoded files with labels, a folder per class. Order and shard are arguments of the decoder.

    Args:
        file_root: the folder above the class folders.
        **given: file_filters, file_list, stick_to_shard, pad_last_batch.

    Returns:
        What to give a decoder, and an empty list: labels are appended to the outputs.
    """
    return _note("readers.file", {"file_root": file_root, **given}), []


def caffe(path: Any, bbox: bool = False, **given: Any) -> tuple[Files, list[Any]]:
    """Read a Caffe LMDB of encoded images with classes. Order and shard are arguments of the decoder.

    Args:
        path: the folder of the LMDB.
        bbox: not offered.
        **given: stick_to_shard, pad_last_batch.

    Returns:
        What to give a decoder, and an empty list: classes are appended to the outputs.

    Raises:
        DefinitionError: boxes are asked for.
    """
    return _databases("readers.caffe", path, bbox, given)


def caffe2(path: Any, bbox: bool = False, **given: Any) -> tuple[Files, list[Any]]:
    """Read a Caffe2 LMDB of encoded images with labels. Order and shard are arguments of the decoder.

    Args:
        path: the folder of the LMDB.
        bbox: not offered.
        **given: stick_to_shard, pad_last_batch.

    Returns:
        What to give a decoder, and an empty list: labels are appended to the outputs.

    Raises:
        DefinitionError: boxes are asked for.
    """
    return _databases("readers.caffe2", path, bbox, given)


def _databases(name: str, path: Any, bbox: bool, given: Mapping[str, Any]) -> tuple[Files, list[Any]]:
    if bbox:
        raise DefinitionError("boxes are not offered yet", fix="bbox=False")
    return _note(name, {"path": path, **given}), []


def cifar10(*_inputs: Any, file_root: Any = "", **given: Any) -> DataNode:
    """Read CIFAR-10 in its binary version. Labels are appended to the outputs.

    Args:
        file_root: the folder with the files.
        **given: filename_prefix, random_shuffle, shard_id, num_shards, last_batch_policy, pad_last_batch, and
            stick_to_shard, which has no effect.

    Returns:
        Images, uint8 of shape (3, 32, 32).

    Raises:
        DefinitionError: another image type than RGB_PLANAR.
    """
    if given.pop("image_type", types.RGB_PLANAR) is not types.RGB_PLANAR:
        raise DefinitionError("readers.cifar10 gives planar images, as the files have them", fix="fn.transpose")
    loader = {name: given.pop(name) for name in tuple(given) if name in LOADER}
    return _note("readers.cifar10", {"file_root": file_root, **given}).read(**loader)


def _note(name: str, given: Mapping[str, Any]) -> Files:
    (step,) = row(name).steps
    passed_on(name, step, given)  # names are checked where they were written
    return Files(name, given)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    with_call_site(row)(f"readers.{name}")
    raise ArgumentTypeError(f"penstock has fn.readers.{name}; its row in penstock.rocal lacks a function")


def __dir__() -> list[str]:
    return sorted(
        name.partition(".")[2] for name, item in _OPERATORS.items() if name.startswith("readers.") and item.offered
    )
