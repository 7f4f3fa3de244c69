"""Check for variables of NNX that are in a tree twice, whose sharing JAX's pytrees do not keep."""

import sys
from typing import Any

import jax

from penstock.errors import UsageError


def check_not_shared(tree: Any) -> None:
    """Check that each variable of NNX is at one path of a tree.

    JAX flattens a variable at each of its paths, so that it comes back as several ones: tied weights come untied, and
    an optimizer updates another model than the one that the step calls. `nnx.jit` keeps the sharing, because it does
    not treat modules as pytrees.

    Raises:
        UsageError: A variable is at two paths.
    """
    nnx = sys.modules.get("flax.nnx")
    if nnx is None:  # so the tree cannot contain variables
        return
    paths: dict[int, Any] = {}
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=lambda node: isinstance(node, nnx.Variable))
    for path, leaf in leaves:
        if isinstance(leaf, nnx.Variable) and (other := paths.setdefault(id(leaf), path)) is not path:
            raise UsageError(
                "a variable of NNX is at two places of the tree, and would come back as two variables",
                given=" and ".join(map(jax.tree_util.keystr, (other, path))),
                expected="each variable once",
                fix="beside a model, nnx.Optimizer and optimizer.update(model, gradients), or nnx.ModelAndOptimizer "
                "without the model; for layers that share weights or rngs, graph, state = nnx.split(...) before the "
                "training, and nnx.merge(graph, state) in the step",
            )
