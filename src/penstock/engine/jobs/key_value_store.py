"""Key-value store shared by the processes of a job while they run."""

from typing import Any


class KeyValueStore:
    """Texts under keys that all processes of a job can read, replace and delete.

    Args:
        client: JAX's client of the coordination service.
        folder: Prefix of all keys. Each use of the store needs its own.
        process: The number of this process.
    """

    def __init__(self, client: Any, folder: str, process: int) -> None:
        self._client, self._folder, self.process = client, f"{folder}/", process

    def put(self, name: str, text: str) -> None:
        """Store a text. Replaces an earlier text of this name."""
        self._client.key_value_set(self._folder + name, text, allow_overwrite=True)

    def read(self, names: str) -> dict[str, str]:
        """Return the texts whose names begin with `names` and a slash, sorted by name."""
        entries: list[tuple[str, str]] = self._client.key_value_dir_get(f"{self._folder}{names}/")
        return {key.removeprefix(self._folder): text for key, text in sorted(entries)}

    def remove(self, name: str) -> None:
        """Delete a text."""
        self._client.key_value_delete(self._folder + name)
