"""DALI's `nvidia.dali.plugin.jax.fn`."""

from penstock.ops.jax_function import jax_function as jax_function
