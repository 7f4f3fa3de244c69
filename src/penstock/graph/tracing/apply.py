"""Recording of operator uses in the definition that is being traced."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from penstock.core import user_call_site
from penstock.errors import ArgumentTypeError, did_you_mean, short_repr
from penstock.graph.arguments.argument_groups import CommonArguments
from penstock.graph.identity.call_record import current_call, internal_call
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.branch_operators import BranchSelect
from penstock.graph.ir.node import Node, Value, infer_specs
from penstock.graph.ir.node_checks import check_branch_scope, check_fusible_input, check_memory, check_no_device_to_host
from penstock.graph.ir.operator import FramedCall, Operator
from penstock.graph.tracing.registry import common_arguments, lookup, running_operator
from penstock.graph.tracing.trace import DataNode, as_value, current_trace

# DALI's "mixed" operators read on the host and leave their results on the GPU, so what follows them belongs there.
_HINTS = {"cpu": "cpu", "gpu": "gpu", "mixed": "gpu", None: None}


def apply(
    operator: Operator,
    *inputs: Any,
    common: CommonArguments | None = None,
    seed: int | None = None,
    beside: Node | None = None,
    **arguments: Any,
) -> DataNode:
    """Record a use of an operator with one output, and return its node; see `apply_many`."""
    (output,) = apply_many(operator, *inputs, common=common, seed=seed, beside=beside, **arguments)
    return output


def _per_frame(
    operator: Operator, inputs: Sequence[Value], arguments: Mapping[str, Any], schema: Mapping[str, Argument]
) -> Operator | None:
    """Return the per-frame variant of the operator if some inputs or arguments have an entry per frame."""
    nodes = {name: value.spec for name, value in arguments.items() if isinstance(value, Value) and name in schema}
    framed = frozenset(name for name, spec in nodes.items() if spec.layout[:1] == "F")
    layouts = tuple(value.spec.layout for value in inputs)
    if framed or (operator.per_frame_inputs and any(layout[:1] == "F" for layout in layouts)):
        return operator.per_frame(FramedCall(layouts, framed, frozenset(nodes) - framed, schema))
    return None


def apply_many(
    operator: Operator,
    *inputs: Any,
    common: CommonArguments | None = None,
    seed: int | None = None,
    beside: Node | None = None,
    **arguments: Any,
) -> list[DataNode]:
    """Record a use of an operator in the definition that is being traced.

    Args:
        operator: The operator.
        inputs: Nodes or constants.
        common: Arguments that every operator takes. None uses those of the running call, or none for a node `beside`
            another; {} is for nodes that only help to compute an operator's results.
        seed: Seed of this node; None or a negative number derives it from the pipeline's.
        beside: Node that this one accompanies: it is computed for the same rows, from the same random bits.
        arguments: Per-sample arguments: nodes or constants. Those that are None are left out.

    Returns:
        A node per output.

    Raises:
        PenstockError: The operator's spec rule refuses the inputs, or a batch does not fit into memory.
    """
    trace = current_trace()
    if common is None:
        common = common_arguments() if beside is None else {}
    values = tuple(as_value(value) for value in inputs)
    guard = trace.guard if beside is None else beside.guard
    if (
        operator.needs_one_shape and guard is not None
    ):  # samples of a branch may have one shape even if all samples together do not
        values = tuple(lookup("copy")(DataNode(value)).value if not value.spec.dense else value for value in values)
    arguments = {name: argument for name, argument in arguments.items() if argument is not None}
    linked = {
        name: trace.check(argument.value) if isinstance(argument, DataNode) else argument
        for name, argument in arguments.items()
    }
    device = common.get("device")
    if not isinstance(cast(Any, device), str | None) or device not in _HINTS:
        raise ArgumentTypeError(
            "no such device", given=short_repr(device), fix=did_you_mean(device, ("cpu", "gpu", "mixed"))
        )
    hint = _HINTS[device] or next((value.node.device for value in values if value.node.device), None)
    name = common.get("name") or ""
    trace.claim_name(name)
    running = running_operator()
    # The signature declares the arguments that users set. The operator adds others, or says more about one of them,
    # such as the number of entries for an input of this rank.
    declared = {**(running.schema if running else {}), **operator.schema}
    schema = {argument: declared[argument] for argument in linked if argument in declared}
    if framed := _per_frame(operator, values, linked, schema):
        # It checks and broadcasts its arguments itself, frame by frame.
        operator, schema = framed, {}
    for argument, rule in schema.items():
        value = linked[argument]
        rule.check(argument, value.spec if isinstance(value, Value) else value)
    # A select is the only operator whose inputs come from different branches.
    for value in () if isinstance(operator, BranchSelect) else (*values, *linked.values()):
        if isinstance(value, Value):
            check_branch_scope(value, guard)
    # Nodes that draw random numbers are counted separately, so that another operator does not change their draws.
    random = operator.random_bits > 0 and beside is None
    stream = trace.streams if random else 0
    node = Node(
        operator=operator,
        kind=running.name if running else "operator",
        inputs=values,
        arguments=linked,
        schema=schema,
        specs=infer_specs(operator, values, linked),
        id=trace.next_id(),
        stream=stream if beside is None else beside.stream,
        seed=(None if seed is None or seed < 0 else seed) if beside is None else beside.seed,
        name=name,
        device=hint,
        where=user_call_site(),
        call=current_call() or internal_call(operator, inputs, arguments),
        guard=guard,
    )
    check_no_device_to_host(node)
    check_fusible_input(node)
    check_memory(node, trace.batch)
    # Only after all checks: a refused call leaves no node behind, and does not shift the random numbers of later
    # nodes.
    trace.nodes.add(node)
    trace.streams += random
    if common.get("preserve"):
        trace.preserved.append(node)
    if trace.eager is not None:
        trace.eager.compute(node)
    return [DataNode(value) for value in node.values]
