"""Arguments of iterators: pipelines, names of outputs, layout."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import jax
from jax.sharding import NamedSharding

from penstock.engine.transfer.batch_layout import BatchLayout, PmapLayout, ShardedLayout, SingleDevice, local_device
from penstock.errors import UsageError, did_you_mean, short_repr
from penstock.graph import Graph
from penstock.pipeline.pipeline import Pipeline

_log = logging.getLogger("penstock")

Shardings = NamedSharding | Mapping[str, NamedSharding]

# Name of the mask: False in rows that the policy PAD adds, and in rows of skipped samples.
VALID = "valid"

# DALI's values of `auto_reset`.
AutoReset = Literal[False, True, "no", "yes"] | None


def as_pipelines(pipelines: Pipeline | Sequence[Pipeline]) -> list[Pipeline]:
    """Return the pipelines of an iterator as a list.

    Raises:
        UsageError: There are no pipelines, or they have different batch sizes.
    """
    group = [pipelines] if isinstance(pipelines, Pipeline) else list(pipelines or [])
    if not group:
        raise UsageError("at least one pipeline is needed", given=pipelines)
    sizes = {pipeline.max_batch_size for pipeline in group}
    if len(sizes) > 1:
        raise UsageError("all pipelines need the same batch size", given=", ".join(map(str, sorted(sizes))))
    return group


def shared_checkpoint(group: Sequence[Pipeline]) -> Mapping[str, Any] | None:
    """Return the state that the pipelines of an iterator were made with; None without one.

    Raises:
        UsageError: Their states differ.
    """
    states = [pipeline.restored_state for pipeline in group]
    if any(state != states[0] for state in states):
        raise UsageError(
            "the pipelines of an iterator need the same checkpoint",
            given="different ones, or none for some of them",
            fix="checkpoint=checkpoints[i] for pipeline i, from checkpoints() of one iterator",
        )
    return states[0]


def check_names(names: Sequence[str]) -> None:
    """Check that an `output_map` has distinct names, and at least one.

    Raises:
        UsageError: It does not.
    """
    if not names:
        raise UsageError("output_map needs a name for an output", given=short_repr(names), fix='output_map=["images"]')
    if len(set(names)) != len(names):
        raise UsageError("output_map names an output twice", given=list(names), fix="distinct names")


def output_names(graph: Graph, names: Sequence[str], *, skips: bool) -> list[str]:
    """Return the names of the outputs of an iterator, without that of a mask.

    Args:
        graph: The definition.
        names: The user's `output_map`; if it is empty, the definition names its outputs.
        skips: True if batches have a mask of skipped rows.

    Raises:
        UsageError: Names are missing or wrong (see `check_names`), or the name of the mask is missing.
    """
    if not names and not graph.output_names:
        raise UsageError(
            f"the outputs of {graph.name} need names",
            fix='output_map=["images"]; or return {"images": images} in the definition',
            where=graph.outputs[0].node.where,
        )
    if skips and VALID in graph.output_names:
        raise UsageError(f'the name {VALID!r} is taken by the mask of on_error="skip"', fix="another name")
    names = names or graph.output_names
    check_names(names)
    return without_mask(names) if skips else list(names)


def select_outputs(graph: Graph, names: Sequence[str]) -> Graph:
    """Return the graph with only the outputs that have a name, in the order of the names.

    Raises:
        UsageError: The definition returns a dict without one of the names, or there are more names than outputs.
    """
    if graph.output_names:
        outputs = dict(zip(graph.output_names, graph.outputs, strict=True))
        for name in names:
            if name not in outputs:
                raise UsageError(
                    f"output_map has a name that is not a key of the dict that {graph.name} returns",
                    given=repr(name),
                    expected=f"names among {', '.join(map(repr, outputs))}",
                    fix=did_you_mean(name, outputs) or "leave output_map out, for all outputs",
                )
        return replace(graph, outputs=tuple([outputs[name] for name in names]), output_names=tuple(names))
    if len(names) > len(graph.outputs):
        raise UsageError(
            "output_map needs a name for the outputs",
            given=f"{len(names)} names",
            expected=f"1 to {len(graph.outputs)}, the outputs of {graph.name}",
        )
    return replace(graph, outputs=graph.outputs[: len(names)])


def check_all_named(graph: Graph, names: Sequence[str], *, skips: bool) -> None:
    """Check that every output of a definition that does not return a dict has a name.

    Args:
        graph: The definition.
        names: The user's `output_map`, not empty.
        skips: True if batches have a mask of skipped rows.

    Raises:
        UsageError: There are fewer names than outputs.
    """
    named = len(names) - (skips and names[-1] == VALID)
    if not graph.output_names and named < len(graph.outputs):
        raise UsageError(
            "output_map has fewer names than the definition has outputs, so outputs would be left out",
            given=f"{short_repr(list(names))} for {', '.join(map(str, graph.outputs))}",
            expected=f"{len(graph.outputs)} names",
            fix=f'a dict in {graph.name}: return {{"images": images, ...}}; output_map then selects among its keys',
            where=graph.outputs[named].node.where,
        )


def without_mask(names: Sequence[str]) -> list[str]:
    """Return the names of the outputs without the last one, which is the mask of skipped rows.

    Raises:
        UsageError: The last name is not that of the mask, so the program would ignore the mask.
    """
    *outputs, last = names
    if last != VALID:
        raise UsageError(
            f'with on_error="skip" rows of zeros stand for bad samples, and the mask {VALID!r} tells which these are',
            given=f"output_map={list(names)}",
            expected=f"{VALID!r} as the last name, and a step that gives such rows no weight",
            fix=f'output_map={[*names, VALID]}; or on_error="replace", where all rows are samples',
        )
    return outputs


def make_layout(
    group: Sequence[Pipeline], names: Sequence[str], sharding: Shardings | BatchLayout | None, pmap: bool | None
) -> BatchLayout:
    """Return the layout of batches on the devices.

    Args:
        group: The pipelines.
        names: Names of the outputs.
        sharding: The argument of `DataIterator`, or a layout.
        pmap: True if one pipeline without a sharding has the layout of `jax.pmap`.

    Raises:
        UsageError: The sharding does not fit the outputs, or the devices do not fit the pipelines.
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


@cache  # once per process
def warn_of_unused_devices() -> None:
    """Log a warning if there are several devices, for an iterator that uses one without the user's choice."""
    count = jax.device_count()
    if count > 1:
        _log.warning(
            "the batches are on 1 of %d devices; for all of them, pass "
            'sharding=jax.NamedSharding(jax.make_mesh((%d,), ("batch",)), jax.P("batch")); '
            "for one of them on purpose, pass device_id=0 next to batch_size",
            count,
            count,
        )


def sharded_layout(sharding: Shardings, names: Sequence[str]) -> BatchLayout:
    """Return the layout of outputs with these names.

    Raises:
        UsageError: The sharding does not split the batch, or has other outputs.
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
