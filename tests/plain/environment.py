"""The plain environment is plain: what `pip install penstock` installs, and the tools that run tests.

`make test-plain` names this file. A search for tests passes it by, since other environments have more.
"""

import importlib.metadata
import importlib.util
import re
from pathlib import Path

import pytest

import penstock

TOOLS = ("pip", "setuptools", "hypothesis", "pytest", "pytest-timeout", "pytest-xdist")
OPTIONAL = [
    "array_record",
    "astropy",
    "av",
    "cloudpickle",
    "cupy",
    "cv2",
    "equinox",
    "flax",
    "grpc",
    "lmdb",
    "lz4",
    "matplotlib",
    "nvidia",
    "obstore",
    "optax",
    "orbax",
    "psutil",
    "pyarrow",
    "pycocotools",
    "sklearn",
    "soundfile",
    "tensorflow",
    "torch",
    "tqdm",
    "xxhash",
]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def with_dependencies(names):
    """Packages and all that they require without an extra."""
    found = set()
    while names:
        name = normal(names.pop())
        if name in found:
            continue
        try:
            required = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or Python
        found.add(name)
        names += [re.match(r"[\w.-]+", item)[0] for item in required if not re.search(r"\bextra\b", item)]
    return found


def test_nothing_is_installed_but_the_package_what_it_requires_and_test_tools():
    installed = {normal(item.metadata["Name"]) for item in importlib.metadata.distributions()}
    assert installed - with_dependencies(["penstock", *TOOLS]) == set()


@pytest.mark.parametrize("module", OPTIONAL)
def test_optional_modules_are_absent(module):
    assert importlib.util.find_spec(module) is None


def test_the_package_is_installed_and_not_read_from_the_checkout():
    assert Path(__file__).parents[2] / "src" not in Path(penstock.__file__).parents
