"""Settings of the site. `make docs` builds it; docs/README.md says how pages are written."""

import os
import sys
from pathlib import Path

import penstock

HERE = Path(__file__).parent
sys.path += [str(HERE / folder) for folder in ("_extensions", "_generate")]

# Each page runs as a reader would run it: on the devices of this machine, and nothing emulated.
for name in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES"):
    os.environ.pop(name, None)
os.environ["JAX_PLATFORMS"] = "cpu"
# Pages call the commands of the environment that builds the site, also if it is not activated.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
# The kernel is that of the environment that builds the site, without the user's settings. By default, each kernel
# logs a warning that its connection is not encrypted.
os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # otherwise its import asks PyPI for the newest version
os.environ["IPYTHONDIR"] = str(HERE / "_build" / "ipython")
profile = HERE / "_build" / "ipython" / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text('c.IPKernelApp.log_level = "ERROR"\n')

project = "Penstock"
author = "The Penstock authors"
copyright = "The Penstock authors"  # noqa: A001
version = release = penstock.__version__
repository_url = "https://github.com/penstock-data/penstock"

extensions = [
    "myst_nb",
    "forked_kernels",
    "repository_links",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "api_docs",
    "code_links",
]
exclude_patterns = ["_build", "README.md"]
templates_path = []
nitpicky = True

# pages
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_in_temp = True  # an empty folder for each page
nb_execution_raise_on_error = False  # an error is a warning, so that one build reports the errors of all pages
nb_execution_show_tb = True
nb_execution_timeout = 180
nb_merge_streams = True

# reference
default_role = "code"  # `name` in a docstring is inline code, as in Markdown
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
autodoc_typehints = "none"  # api_docs writes the signatures
nitpick_ignore = [
    ("py:exc", "CancelledError"),  # of concurrent.futures
    # Types in signatures that only Penstock makes and takes.
    *(
        ("py:class", f"penstock.{name}")
        for name in (
            "core.stage_timers.TimerSnapshot",
            "dynamic.element_type._Kind",
            "engine.host.chunk_executor.ChunkExecutor",
            "engine.transfer.batch_layout.BatchLayout",
            "graph.ir.node.Node",
            "graph.ir.node.OperatorCall",
            "graph.ir.node.Value",
            "image.image_fusion.ImageFusion",
            "pipeline.dali_methods.DaliMethods",
            "pipeline.tensor_list.TensorList",
            "rocal.fn.readers.Files",
            "sources.order.schedule.BatchStep",
            "train.history.NotFiniteMetric",
        )
    ),
]
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# theme
html_theme = "sphinx_book_theme"
html_title = "Penstock"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "repository_url": repository_url,
    "repository_branch": "main",
    "path_to_docs": "docs",
    "use_edit_page_button": True,
    "use_repository_button": True,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "navbar_persistent": [],  # the search field is in the sidebar
}
