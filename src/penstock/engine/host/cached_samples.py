"""Cached samples: values that are computed from the samples of a reader alone, by source and index."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import cast

from penstock.core import Indices
from penstock.engine.host.machine_identity import machine_identity
from penstock.engine.host.memory_caches import shared_memory_store
from penstock.engine.host.sharded_reader import SampleIndices
from penstock.graph import Graph
from penstock.graph.identity.fingerprint import canonical_definition
from penstock.graph.ir.sample_cache import SampleCache
from penstock.plan.plan import Plan
from penstock.plan.stage_grouping import Stage, StageKind
from penstock.sources.sample_digest import sample_digest
from penstock.sources.source import Source
from penstock.sources.storage.file_stamps import SampleState
from penstock.sources.storage.sample_files import FileStore
from penstock.sources.storage.sample_store import MemoryStore, Record, SampleStore

# Version of the format of the files.
_FORMAT = 1


class CachedSamples:
    """Cache of a reader's samples, with a store per source. Thread-safe.

    Args:
        stores: The store of each source, by its identity (`id`): blocks of a batch may have separate sources.
    """

    def __init__(self, stores: Mapping[int, SampleStore]) -> None:
        self._stores = stores

    def find(self, samples: Sequence[SampleIndices], rows: int) -> tuple[list[Record | None], list[SampleState]]:
        """Return the records and the states of samples.

        Args:
            samples: The samples of some rows.
            rows: Number of rows.

        Returns:
            Per row, its record or None; and the state of its file or files, with which `add` must be called.
        """
        records: list[Record | None] = [None] * rows
        states: list[SampleState] = [None] * rows
        for part in samples:
            now = [part.source.sample_state(index) for index in part.indices.tolist()]
            found = self._stores[id(part.source)].find(part.indices, now)
            for row, record, state in zip(part.places.tolist(), found, now, strict=True):
                records[row], states[row] = record, state
        return records, states

    def add(self, samples: Sequence[SampleIndices], states: Sequence[SampleState], records: Sequence[Record]) -> None:
        """Store records, as far as there is room.

        Args:
            samples: The samples of some rows.
            states: State of each row's sample before it was read.
            records: Record of each row.
        """
        for part in samples:
            rows: list[int] = part.places.tolist()
            self._stores[id(part.source)].add(
                part.indices, [states[row] for row in rows], [records[row] for row in rows]
            )

    def missing(self, source: Source, indices: Indices) -> Indices:
        """Return those of some indices that are not stored. Does not look at the files of the samples."""
        return indices[~self._stores[id(source)].has(indices)]

    @property
    def in_memory(self) -> bool:
        """True if the values are in memory, not in files."""
        return any(isinstance(store, MemoryStore) for store in self._stores.values())

    def summary(self) -> str:
        """Describe the content for `explain()`."""
        distinct = {id(store): store for store in self._stores.values()}
        return "; ".join(store.summary() for store in distinct.values())


def cache_stages(plan: Plan) -> list[Stage]:
    """Return the stages of a plan's caches."""
    return [stage for stage in plan.stages if stage.way is StageKind.CACHE]


def cache_definition(stage: Stage) -> tuple[str, ...]:
    """Return the definition of a cache's values as text, which identifies them.

    Only the user's program has it: nodes in a worker process do not have their calls.
    """
    kinds = [f"{value.spec.dtype} {len(value.spec.shape)}" for value in stage.stored]
    return (*canonical_definition(Graph(stage.stored)).calls, *kinds)


def open_caches(stage: Stage, definition: Sequence[str], sources: Sequence[Source], processes: int) -> CachedSamples:
    """Open the cache of a stage.

    Args:
        stage: Stage of a cache in the plan.
        definition: Its `cache_definition`.
        sources: The sources of its reader, one for the whole batch or one per block.
        processes: Number of processes on this host that share the limit on memory.

    Raises:
        ResourceError: Its files can neither be created nor read.
    """
    operator = cast(SampleCache, stage.nodes[0].operator)
    distinct = {id(source): source for source in sources}
    fingerprints = {number: source.fingerprint() for number, source in distinct.items()}
    stores: dict[int, SampleStore] = {}
    if not operator.folder:
        limit = operator.memory // (processes * len(set(fingerprints.values())))
        for number, source in distinct.items():
            stores[number] = shared_memory_store(limit, (*definition, fingerprints[number]), source, stage.stored)
        return CachedSamples(stores)
    specs = [value.spec for value in stage.stored]
    for number, source in distinct.items():
        texts = [_FORMAT, *machine_identity().items(), *definition, fingerprints[number], sample_digest(source)]
        key = hashlib.sha256("\n".join(map(str, texts)).encode()).hexdigest()[:32]
        stores[number] = FileStore(operator.folder, key, operator.limit, specs)
    return CachedSamples(stores)
