"""Text of a plan: a table of nodes with their placement and its reason."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from penstock.core import ShapeKind
from penstock.graph import Node, Reader, StreamInput, Value
from penstock.graph.ir.sample_cache import SampleCache, cached_reader
from penstock.plan.paired_readers import pair_readers
from penstock.plan.plan import Plan
from penstock.plan.stage_grouping import StageKind, flat_stages
from penstock.sources.storage.sample_limit import bytes_text


def explain(
    plan: Plan,
    readers: Mapping[int, Sequence[Reader]],
    batch: str,
    local: frozenset[int] = frozenset(),
    caches: Mapping[Node, str] | None = None,
) -> str:
    """Return a table of the nodes in the order of the definition, and the values that cross to the device.

    Args:
        plan: The plan.
        readers: As in `penstock.plan.shard_merge.MergedProgram`.
        batch: A description of the batch for the title.
        local: Ids of the nodes that have one reader or stream per shard.
        caches: Content of the cache of each reader that has one.
    """
    target = plan.target
    title = f"plan of {plan.graph.name}: {len(plan.graph.nodes)} nodes, {batch}, backend {target.platform}"
    lines = [f"{title}, placement {target.placement}"]
    stages = list(flat_stages(plan.stages))
    hows = {node: stage.way.value for stage in stages for node in stage.nodes}
    chained = [*(stage.nodes for stage in stages if stage.way is StageKind.CHAIN), *plan.fusion_groups]
    # A node of a fused group is computed in the next one, and only the last has a result.
    hows |= {node: f"in {user}" for nodes in chained for node, user in pairwise(nodes)}
    cached = {node for stage in stages for inner in stage.inner for node in inner.nodes}
    hows |= {node: f"{hows[node]}, unless cached" for node in cached}
    rows = [("", "node", "where", "how", "gives", "why")]
    paired = pair_readers(plan.graph.readers, readers)
    for number, node in enumerate(plan.graph.nodes):
        placement = plan.placements[node]
        how = hows.get(node, "chain" if any(node in nodes for nodes in plan.fusion_groups) else "batch")
        how += f", where {plan.graph.nodes.index(node.guard.node)}" if node.guard else ""
        gives = ", ".join(_describe(value) for value in node.values)
        why = placement.why
        if isinstance(node.operator, StreamInput):
            why = _feeding(node, node.operator, local)
        if isinstance(node.operator, Reader):
            why = _reading(node, readers, local) + _pairing(node, paired, readers)
        if isinstance(node.operator, SampleCache):
            why = _caching(node.operator, (caches or {}).get(cached_reader(node), ""))
        rows.append((str(number), str(node), placement.place.value, how, gives, why))
    # The last column, the reasons, is not padded.
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines += ["  " + "  ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows]
    if plan.device:
        crossing = ", ".join(f"{value} {value.spec}" for value in plan.crossing)
        size = sum(value.spec.nbytes for value in plan.crossing)
        lines.append(f"  crosses to the device: {crossing or 'nothing'}; {size} bytes a sample")
    outputs = [f"{value.spec} from the {plan.placements[value.node].place.value}" for value in plan.graph.outputs]
    lines.append(f"  outputs: {', '.join(outputs)}")
    return "\n".join(lines)


def _describe(value: Value) -> str:
    sure = " (sample 0 showed it; checked)" if value.spec.extent is ShapeKind.SAME else ""
    return f"{value.spec}{sure}"


def _reading(node: Node, readers: Mapping[int, Sequence[Reader]], local: frozenset[int]) -> str:
    parts = readers[node.id]
    reader = parts[0]
    order = "shuffled in each epoch" if reader.shuffle else "in order"
    if node.id in local:
        # Shards may share a source, whose samples count once.
        shards = "static parts, one per shard" if reader.contiguous else "local: each shard reads its own data"
        return f"{describe_data(parts)}, {order}; {shards}"
    part = f"; shard {reader.shard_id} of {reader.num_shards}" if reader.num_shards > 1 else ""
    return f"{describe_data(parts)}, {order}{part}"


def describe_data(readers: Sequence[Reader]) -> str:
    """Describe the data of a reader, or of the readers of all shards, in a few words."""
    sources = list({id(reader.source): reader.source for reader in readers}.values())
    return sources[0].summary() if len(sources) == 1 else f"{sum(map(len, sources))} samples"


def _feeding(node: Node, feed: StreamInput, local: frozenset[int]) -> str:
    scope = "; one for each shard" if node.id in local else ""
    obstacle = feed.stream.seek_obstacle
    return f"calls the source{scope}" + (f"; cannot be resumed: {obstacle}" if obstacle else "")


def _caching(cache: SampleCache, content: str) -> str:
    if cache.folder:
        place = f"in files in {cache.folder}" + (f", up to {bytes_text(cache.limit)}" if cache.limit else "")
    else:
        place = f"in memory, up to {bytes_text(cache.memory)} on each host"
    return place + (f"; has {content}" if content else "")


def _pairing(node: Node, paired: Mapping[Node, Node], readers: Mapping[int, Sequence[Reader]]) -> str:
    """Return the reader that a reader is paired with, or the reason that it is not; "" for the first reader."""
    first = next(iter(paired))
    if node is first:
        return ""
    if paired[node] is not node:
        return f"; in step with {paired[node]}"
    one, other = readers[first.id][0], readers[node.id][0]
    why = "seed" if node.seed != first.seed else "order"
    why = "length" if len(one.source) != len(other.source) else why
    return f"; not in step with {first}, which has another {why}"
