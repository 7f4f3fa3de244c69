"""Compiles the package's loops while it is built, where that is possible; else they are compiled when first used."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileAhead(BuildHookInterface):
    """Adds machine code to wheels, and to the source tree of editable installations."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before files are collected."""
        # what the build needs is found by the path as it is
        path = os.pathsep.join([str(Path(self.root, "src")), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path}
        command = [sys.executable, "-m", "penstock.operators.compile_ahead"]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if result.returncode:
            self.app.display_warning(f"loops will be compiled when they are first used: {result.stderr}")
