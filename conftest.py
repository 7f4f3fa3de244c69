"""JAX for all tests and doctests: eight emulated devices, and no silent promotion of dtypes or ranks."""

from __future__ import annotations

import gc
import os

import hypothesis
import jax

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

hypothesis.settings.register_profile("quick", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.register_profile("few", deadline=None, max_examples=4, derandomize=True)
hypothesis.settings.register_profile("nightly", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of later collections of garbage: fixtures collect after many a test."""
    gc.collect()
    gc.freeze()
