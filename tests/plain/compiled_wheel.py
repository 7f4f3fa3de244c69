"""An installed wheel with compiled loops compiles nothing. The build of such wheels names this file."""

import os
import re
import subprocess
import sys
from pathlib import Path

from penstock.testing import write_photographs

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def test_the_program_of_the_readme_needs_no_compiler(tmp_path):
    write_photographs(tmp_path / "photos", classes=("cat", "dog"), samples_per_class=40)
    (program,) = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    program += "\nimport sys\nassert 'numba' not in sys.modules"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "NUMBA_CACHE_DIR": str(tmp_path / "caches")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "caches").exists()
