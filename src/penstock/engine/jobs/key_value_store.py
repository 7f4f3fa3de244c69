"""What the processes of a job show each other while they run: short texts under names, in the job's key-value store."""

from __future__ import annotations

from typing import Any


class KeyValueStore:
    """Texts that all processes of a job can read, change and take away.

    Args:
        client: JAX's client of the coordination service.
        folder: where the texts lie; another one for each use.
        process: the number of this process.
    """

    def __init__(self, client: Any, folder: str, process: int) -> None:
        self._client, self._folder, self.process = client, f"{folder}/", process

    def put(self, name: str, text: str) -> None:
        """Put up a text, in place of another of this name."""
        self._client.key_value_set(self._folder + name, text, allow_overwrite=True)

    def read(self, names: str) -> dict[str, str]:
        """The texts whose names begin with `names` and a slash, sorted by name."""
        found: list[tuple[str, str]] = self._client.key_value_dir_get(f"{self._folder}{names}/")
        return {key.removeprefix(self._folder): text for key, text in sorted(found)}

    def remove(self, name: str) -> None:
        """Take a text away."""
        self._client.key_value_delete(self._folder + name)
