"""DALI's `nvidia.dali.plugin.jax.fn`."""

from penstock.operators.user_code.jax_function import jax_function as jax_function
