"""Build hook of release wheels: compiles the package's loops ahead. Ordinary wheels compile them at first use."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileAhead(BuildHookInterface):
    """Adds machine code to a wheel, and tags the wheel with the Python and the platform that can run the code."""

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
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if version != "editable":
            self._folder.cleanup()
