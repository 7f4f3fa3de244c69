"""Arguments of iterators: pipelines, names of outputs, layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from jax.sharding import NamedSharding

from penstock.engine.transfer.batch_layout import BatchLayout, PmapLayout, ShardedLayout, SingleDevice, local_device
from penstock.errors import UsageError, did_you_mean, short_repr
from penstock.graph import Graph
from penstock.pipeline.pipeline import Pipeline

Shardings = NamedSharding | Mapping[str, NamedSharding]

VALID = "valid"
"""The output that masks rows: those that the policy PAD adds, and bad samples that are skipped."""

AutoReset = Literal[False, True, "no", "yes"] | None
"""DALI's words for whether an iterator begins the next epoch by itself."""


def as_pipelines(pipelines: Pipeline | Sequence[Pipeline]) -> list[Pipeline]:
    """The pipelines of an iterator, which agree on the batch size.

    Raises:
        UsageError: there are no pipelines, or they have different batch sizes.
    """
    group = [pipelines] if isinstance(pipelines, Pipeline) else list(pipelines or [])
    if not group:
        raise UsageError("at least one pipeline is needed", given=pipelines)
    sizes = {pipeline.max_batch_size for pipeline in group}
    if len(sizes) > 1:
        raise UsageError("all pipelines need the same batch size", given=", ".join(map(str, sorted(sizes))))
    return group


def check_names(names: Sequence[str]) -> None:
    """Check that an `output_map` names outputs.

    Raises:
        UsageError: it does not.
    """
    if not names:
        raise UsageError("output_map needs a name for an output", given=short_repr(names), fix='output_map=["images"]')
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise UsageError(
            "output_map is a list of names", given=short_repr(names), fix='output_map=["images", "labels"]'
        )
    if len(set(names)) != len(names):
        raise UsageError("output_map names an output twice", given=list(names), fix="distinct names")


def select_outputs(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph with those outputs only that have a name.

    Raises:
        UsageError: the names are no names, or more than there are outputs.
    """
    check_names(names)
    if len(names) > len(graph.outputs):
        raise UsageError(
            "output_map needs a name for the outputs",
            given=f"{len(names)} names",
            expected=f"1 to {len(graph.outputs)}, the outputs of {graph.name}",
        )
    return replace(graph, outputs=graph.outputs[: len(names)])


def without_mask(names: Sequence[str]) -> list[str]:
    """The names of the outputs, without that of the mask of the rows that are skipped.

    Raises:
        UsageError: the mask has no name, so nobody would look at it.
    """
    check_names(names)
    *outputs, last = names
    if last != VALID:
        raise UsageError(
            f'with on_error="skip" rows of zeros stand for bad samples, and the mask {VALID!r} tells which these are',
            given=f"output_map={list(names)}",
            expected=f"{VALID!r} as the last name, and a step that gives such rows no weight",
            fix=f'output_map={[*names, VALID]}; or on_error="replace", where all rows are samples',
        )
    return outputs


def parse_auto_reset(auto_reset: AutoReset) -> bool:
    """Return True if DALI's `auto_reset` is on."""
    return auto_reset in (True, "yes")


def make_layout(
    group: Sequence[Pipeline], names: Sequence[str], sharding: Shardings | BatchLayout | None, pmap: bool | None
) -> BatchLayout:
    """Return the layout of batches on the devices.

    Args:
        group: the pipelines.
        names: of the outputs.
        sharding: as `DataIterator` takes it, or a layout that was chosen already.
        pmap: whether one pipeline without a sharding gives the layout of `jax.pmap`.

    Raises:
        UsageError: a sharding that does not fit the outputs, or devices that do not fit the pipelines.
    """
    if sharding is not None:
        layout = sharding if isinstance(sharding, BatchLayout) else sharded_layout(sharding, names)
        if len(group) not in (1, len(layout.shards)):
            raise UsageError(
                "a list of pipelines needs one for each block of rows",
                given=f"{len(group)} pipelines",
                expected=f"{len(layout.shards)}, as the sharding cuts the batch",
            )
        return layout
    if len(group) == 1 and not pmap:
        return SingleDevice(group[0].device_id)
    ids = [pipeline.device_id for pipeline in group]
    devices = [local_device(device_id) for device_id in ids]
    if len(set(devices)) == 1:
        return PmapLayout(devices[:1], len(group))
    if len(set(devices)) != len(devices) or None in ids:
        raise UsageError("pipelines lie all on different devices, or all on one", given=f"device_ids {ids}")
    return PmapLayout(devices, len(group))


def sharded_layout(sharding: Shardings, names: Sequence[str]) -> BatchLayout:
    """The layout of outputs with these names.

    Raises:
        UsageError: the sharding does not cut the batch, or is not that of these outputs.
    """
    if not isinstance(sharding, Mapping):
        return ShardedLayout([sharding] * len(names))
    if set(sharding) != set(names):
        wrong = next(iter(set(sharding) ^ set(names)))
        raise UsageError(
            "sharding has an entry for each output",
            given=", ".join(sharding),
            expected=", ".join(names),
            fix=did_you_mean(wrong, names) if wrong in sharding else None,
        )
    return ShardedLayout([sharding[name] for name in names])
