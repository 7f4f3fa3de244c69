"""Build hooks: README with absolute links for PyPI, and machine code in release wheels."""

import os
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeOfRelease(MetadataHookInterface):
    """Makes the README's links to files of the repository absolute, since PyPI has only the README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field `readme`."""
        text = Path(self.root, "README.md").read_text("utf-8")
        repository = metadata["urls"]["Source"]
        for image, view in (("!", "raw"), ("", "blob")):
            text = re.sub(
                rf"(?<!!){image}\[([^]]*)\]\((?![a-z]+:|#)",
                rf"{image}[\1]({repository}/{view}/v{metadata['version']}/",
                text,
            )
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class CompileAhead(BuildHookInterface):
    """Adds machine code to a wheel, and tags the wheel with the Python and the platform that can run the code.

    Ordinary wheels compile loops at first use.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before files are collected."""
        if version == "editable":  # would write into the source tree, and every change of a loop makes its code useless
            return
        # a temporary folder, so that no machine code is left in the source tree for an ordinary build to pick up
        self._folder = tempfile.TemporaryDirectory()
        # the isolated build environment is found by the path as it is
        path = os.pathsep.join([str(Path(self.root, "src")), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "penstock.native.precompile_modules", self._folder.name]
        result = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise RuntimeError(f"the loops cannot be compiled ahead:\n{result.stderr}")
        target = f"penstock/native/ahead/{sys.implementation.cache_tag}"
        build_data["force_include"][self._folder.name] = target
        build_data["pure_python"] = False
        build_data["tag"] = f"cp{sys.version_info.major}{sys.version_info.minor}-none-{platform_tag()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if version != "editable":
            self._folder.cleanup()


def platform_tag() -> str:
    """Return the platform tag of a wheel with machine code.

    The code belongs to one version of CPython, because keys of loops contain their bytecode, but it does not use the C
    API of Python. LLVM loads it and looks up the few functions of the C library that it calls, so it runs with every
    glibc, and auditwheel, which examines shared libraries, has nothing to examine. On a processor without AVX2 it is
    not loaded, and loops are compiled at first use.
    """
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        return f"manylinux_2_17_{platform.machine()}"
    return re.sub(r"[-.]", "_", sysconfig.get_platform())
