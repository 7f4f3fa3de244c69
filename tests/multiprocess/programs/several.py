"""Program that runs others one after the other in one job, because the start of processes takes most of their time.

Arguments: the programs, each with its arguments; "+" separates them.
"""

import importlib.util
import sys
from pathlib import Path

import penstock.launch


def main(words):
    penstock.launch.initialize()
    penstock.launch.initialize = lambda: None  # the programs call it, too
    while words:
        end = words.index("+") if "+" in words else len(words)
        (name, *arguments), words = words[:end], words[end + 1 :]
        path = Path(__file__).with_name(name)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        program.main(*arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
