"""Agreement between the processes of a job on definition, data and shapes, before the first batch."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from typing import Any, cast

from penstock.core.warn_once import warn_once
from penstock.engine.failures.error_budget import ErrorBudget, ErrorLimits
from penstock.engine.failures.quarantine import Quarantine
from penstock.engine.host.run_context import reader_label
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.jobs import members
from penstock.engine.jobs.jax_runtime import coordination_client
from penstock.engine.jobs.job_environment import started_processes
from penstock.engine.jobs.members import IteratorMembership
from penstock.engine.jobs.startup_exchange import exchange
from penstock.engine.transfer.batch_layout import BatchLayout
from penstock.errors import UsageError
from penstock.graph import Graph, Node, Reader
from penstock.graph.identity.fingerprint import fingerprint
from penstock.iterate.code_version import code_digest
from penstock.pipeline.pipeline import Pipeline
from penstock.plan.plan import Plan
from penstock.plan.shard_merge import ReaderFacts
from penstock.sources.sample_digest import file_digests


def join_iterator(layout: BatchLayout) -> IteratorMembership | None:
    """Join the iterator of several processes. Returns None if there are no others."""
    job = members.join_job() if layout.processes > 1 else None
    return None if job is None else job.begin(_processes(layout))


def agree_on_definition(
    graphs: Sequence[Graph], layout: BatchLayout, pipeline: Pipeline, choices: Mapping[str, Any], *, per_block: bool
) -> tuple[int, Sequence[Sequence[ReaderFacts]] | None, int]:
    """Check that all processes run the same definition over the same data, and agree on a drawn seed.

    Args:
        graphs: One per block of rows that this process computes, or one for the whole batch.
        layout: Layout of batches on the devices.
        pipeline: The first pipeline, whose seed counts.
        choices: Other values that must be the same, by name, as plain JSON.
        per_block: True if there is a graph per block.

    Returns:
        The seed of all random numbers, from the first process if it was drawn; and the facts of the readers of each
        block, in the order of the rows, or None if this process has all readers; and the number of processes on this
        host.

    Raises:
        UsageError: The processes define different pipelines, or read different data as if they were the same.
    """
    if layout.processes <= 1:
        _warn_if_alone(graphs)
        return pipeline.seed, None, 1
    mine = {
        "definition": fingerprint(graphs[0]),
        "code": code_digest(graphs[0]),
        **choices,
        "seed": pipeline.seed if pipeline.seed_is_given else "not given",
        "one definition per": "block" if per_block else "batch",
    }
    facts = [[asdict(ReaderFacts.of(cast(Reader, node.operator))) for node in graph.readers] for graph in graphs]
    host = socket.gethostname()
    digests = [[file_digests(cast(Reader, node.operator).source) for node in graph.readers] for graph in graphs]
    message = {
        "same": mine,
        "seed": pipeline.seed,
        "shards": layout.shards,
        "facts": facts,
        # JSON has texts as keys.
        "files": [[{str(index): digest for index, digest in of.items()} for of in block] for block in digests],
        "host": host,
    }
    answers = dict(zip(_processes(layout), exchange(layout.all_devices, message), strict=True))
    _check_same({process: item["same"] for process, item in answers.items()}, "define different pipelines")
    first = next(iter(answers.values()))
    read = [
        (shard, process, [ReaderFacts(**reader) for reader in block], files)
        for process, item in answers.items()
        for shard, block, files in zip(item["shards"] if per_block else [0], item["facts"], item["files"], strict=True)
    ]
    # Facts cannot be ordered, and two processes may hold the same shard.
    read.sort(key=lambda entry: entry[:2])
    for number, node in enumerate(graphs[0].readers):
        parts = [(process, block[number], files[number]) for _, process, block, files in read]
        _check_data(parts, str(node), per_block=per_block)
    # With a replicated batch, several processes report the same shard: one entry per shard remains.
    blocks = {shard: block for shard, _, block, _ in read}
    neighbors = [item["host"] for item in answers.values()].count(host)
    return first["seed"], [*blocks.values()] if per_block else None, neighbors


def _warn_if_alone(graphs: Sequence[Graph]) -> None:
    """Warn if a launcher has started several processes, of which each reads all data, because JAX has not joined them.

    A program that communicates without JAX, or not at all, states its part of the data.
    """
    launcher, processes = started_processes()
    if processes <= 1 or coordination_client() is not None:
        return
    readers = [cast(Reader, node.operator) for node in graphs[0].readers]
    if readers and all(reader.num_shards <= len(graphs) for reader in readers):
        warn_once(
            "alone",
            f"{launcher} has started {processes} processes, and this one reads all data: JAX has not joined them",
            fix="penstock.launch.initialize() before JAX is used; or num_shards= if each process trains for itself",
        )


def agree_on_shapes(plan: Plan, layout: BatchLayout) -> None:
    """Check that the first samples of all processes have the same dtypes and shapes.

    Raises:
        UsageError: They do not.
    """
    if layout.processes > 1:
        specs = [str(value.spec) for value in (*plan.results, *plan.graph.outputs)]
        answers = exchange(layout.all_devices, specs)
        matches = {
            process: {"dtypes and shapes": item} for process, item in zip(_processes(layout), answers, strict=True)
        }
        _check_same(matches, "read samples of different shapes")


def make_error_budget(
    membership: IteratorMembership | None,
    readers: Mapping[Node, ShardedReader],
    limits: ErrorLimits,
    path: str | PathLike[str] | None,
    batch_size: int,
) -> ErrorBudget:
    """Build the budget of bad samples, over all processes of a job.

    Args:
        membership: Membership of this process in the iterator; None without other processes.
        readers: The readers.
        limits: Limits of tolerated bad samples.
        path: The quarantine file, or None.
        batch_size: Number of rows of a global batch.
    """
    store = None if membership is None else membership.store
    quarantine = None if path is None else Quarantine(path, store)
    if membership is not None and quarantine is not None:
        membership.peers.at_end(quarantine.flush)
    names = [reader_label(reader, readers) for reader in readers]
    return ErrorBudget(names, limits, quarantine, store, batch_size)


def _processes(layout: BatchLayout) -> list[int]:
    return sorted({device.process_index for device in layout.all_devices})


def _check_data(read: Sequence[tuple[int, ReaderFacts, Mapping[str, str]]], reader: str, *, per_block: bool) -> None:
    """Check that processes have the same data if they read parts of one data set.

    They do if one definition describes the whole batch, or if the reader of each block reads its shard. Other readers
    may have separate data.

    Args:
        read: For each block, the process, the facts of its reader, and digests of a few of its files.
        reader: The reader, for the message.
        per_block: True if each block has a reader.
    """
    slices = [(facts.shard_id, facts.num_shards) for _, facts, _ in read]
    if per_block and slices != [(number, len(read)) for number in range(len(read))]:
        return
    (process, one, files), *others = read
    for other, facts, other_files in others:
        changed = [index for index in files if other_files.get(index, files[index]) != files[index]]
        if changed and facts.dataset == one.dataset:
            raise UsageError(
                f"the processes of this job read files of equal names and other content with {reader}",
                given=f"content {other_files[changed[0]]} of the file of sample {changed[0]} in process {other}",
                expected=f"{files[changed[0]]}, as in process {process}",
                fix="copy the data set again, so that all processes have the same files",
            )
        if facts.dataset != one.dataset:
            raise UsageError(
                f"the processes of this job read different data with {reader}",
                given=f"{facts.dataset} in process {other}, beginning with {facts.first}",
                expected=f"{one.dataset}, as in process {process}, beginning with {one.first}",
                fix="give all of them the same data; where each has its own, leave out the reader's shard_id"
                if per_block
                else "give all of them the same data; where each has its own, take shard_id as an argument",
            )


def _check_same(answers: Mapping[int, Mapping[str, Any]], what: str) -> None:
    process, one = next(iter(answers.items()))
    for other, item in answers.items():
        names = [name for name in one if item.get(name) != one[name]]
        if names:
            raise UsageError(
                f"the processes of this job {what}",
                given=f"{_listed(item, names)} in process {other}",
                expected=f"{_listed(one, names)}, as in process {process}",
                fix="run the same program with the same arguments in all of them",
            )


def _listed(what: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {what.get(name)}" for name in names)
