"""Links from pages to files outside of the site, such as `../../examples/flax_cnn.py`, lead to the repository."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import download_reference
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

log = logging.getLogger(__name__)


class RepositoryLinks(SphinxTransform):
    """Replaces downloads, into which MyST turns links to files outside of the site, by links to the repository."""

    default_priority = 700

    def apply(self, **kwargs: Any) -> None:
        """Replace the downloads of a page."""
        source = Path(self.env.srcdir).resolve()
        root = source.parent
        for node in [*self.document.findall(download_reference)]:
            target = (source / self.env.docname).parent.joinpath(node["reftarget"]).resolve()
            if node["reftarget"].startswith("/"):  # MyST has resolved it, relative to the source folder
                target = source.joinpath(node["reftarget"].lstrip("/")).resolve()
            if not target.exists() or not target.is_relative_to(root):
                log.warning("there is no file %s", node["reftarget"], location=node, type="repository_links")
                continue
            uri = f"{self.config.repository_url}/blob/main/{target.relative_to(root).as_posix()}"
            link = nodes.reference("", "", *node.children, refuri=uri, internal=False)
            node.replace_self(link)


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the transform and the setting `repository_url`."""
    app.add_config_value("repository_url", "", "env", str)
    app.add_transform(RepositoryLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
