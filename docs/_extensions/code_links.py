"""Links from inline code to the reference: `fn.resize` to the operator's page, `train.fit` to its entry."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

# A name, and arguments if it is called: penstock.fn.resize(images, size=64).
CODE = re.compile(r"@?(?:penstock\.)?((?:\w+\.)*\w+)(\(.*\))?", re.DOTALL)
# Modules whose names pages write without the module.
MODULES = ("penstock", "penstock.errors", "penstock.train", "penstock.testing", "penstock.extend")
PLAIN = (nodes.reference, nodes.title)


class CodeLinks(SphinxPostTransform):
    """Transform that makes inline code a link if it is the name of something in the reference."""

    default_priority = 20

    def run(self, **_: Any) -> None:
        """Replace the nodes of the page."""
        builder = self.env._app.builder  # noqa: SLF001  # Sphinx 9 has no public name for it
        here = self.env.current_document.docname
        for node in list(self.document.findall(nodes.literal)):
            target = self._target(node.astext())
            if target and target[0] != here and not any(_inside(node, kind) for kind in PLAIN):
                node.replace_self(make_refnode(builder, here, *target, [node.deepcopy()]))

    def _target(self, text: str) -> tuple[str, str] | None:
        """Return page and anchor of the object that inline code names, or None."""
        match = CODE.fullmatch(text)
        if not match:
            return None
        name, call = match.groups()
        # A plain word such as `train` or `path` may mean anything.
        if not call and name.islower() and "." not in name and "_" not in name:
            return None
        objects = self.env.domains.python_domain.objects
        found = next((objects[full] for module in MODULES if (full := f"{module}.{name}") in objects), None)
        return (found.docname, found.node_id) if found else None


def _inside(node: nodes.Node, kind: type[nodes.Node]) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kind):
            return True
    return False


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_post_transform(CodeLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
