"""Effects of the operators of an iterator's definition on its first samples."""

from typing import Any

from penstock.pictures.operator_effects import DefinitionEffects, EffectRecorder


def iterator_effects(iterator: Any, count: int, seed: int | None, order_seed: int | None) -> DefinitionEffects:
    """Compute every value of an iterator's definition for the first samples of its first epoch.

    The iterator does not move, but sources of `fn.external_source` are called.

    Args:
        iterator: A `DataIterator`.
        count: Largest number of samples.
        seed: Seed of the random numbers; by default that of the iterator.
        order_seed: Seed of the shuffles; by default that of the iterator.
    """
    # This function belongs to the iterator, as its methods do.
    executable, readings, schedule = iterator._executable, iterator._readings, iterator._schedule  # noqa: SLF001
    seeds: tuple[int, int] = iterator._seed, iterator._order_seed  # noqa: SLF001
    own = seeds[0] if seed is None else seed
    order = seeds[1] if order_seed is None else order_seed
    recorder = EffectRecorder(executable, readings(order), schedule, iterator.output_map, own)
    return DefinitionEffects(executable.plan.graph.name, own, order, recorder.samples(count))


def definition_name(iterator: Any) -> str:
    """Return the name of an iterator's definition."""
    return iterator._executable.plan.graph.name  # noqa: SLF001  # as above
