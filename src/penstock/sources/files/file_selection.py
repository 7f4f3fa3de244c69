"""Selection of files by folder, by paths or by a list file, for readers of any format."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from os import fspath
from typing import Any

from penstock.errors import DefinitionError
from penstock.sources.files.class_folders import class_folder_stamp, list_files
from penstock.sources.files.file_lists import files_from_name_list, files_from_paths
from penstock.sources.files.file_source import FileSource
from penstock.sources.files.path_arguments import Path, as_paths
from penstock.sources.record_source import RecordSource
from penstock.sources.storage.file_stamps import file_stamps


@dataclass(frozen=True)
class FileSelection:
    """Files of a folder and its subfolders, a list of paths, or a text file with one path per line.

    Args:
        root: Folder to list, or base of relative paths with `files` or `file_list`.
        files: Paths, or None.
        file_list: Text file, or None.
        file_filter: Glob for the names of files in the folder.
    """

    root: str | None
    files: tuple[str, ...] | None
    file_list: str | None
    file_filter: str

    def open(self) -> FileSource:
        """List the files."""
        if self.files is not None:
            return files_from_paths(self.root or "", self.files, None)
        if self.file_list is not None:
            return files_from_name_list(self.file_list, self.root)
        return list_files(self.root or "", self.file_filter)

    def stamp(self) -> Hashable:
        """Return a value that changes if the listing, or the first of the named files, changes."""
        # The spec of all samples comes from the first file.
        if self.files is not None:
            return file_stamps(*(f"{self.root}/{path}" if self.root else path for path in self.files[:1]))
        if self.file_list is not None:
            return file_stamps(self.file_list)
        return class_folder_stamp(self.root or "")


class SelectedFilesSource(RecordSource[FileSource]):
    """Base of sources with one sample per file.

    Args:
        choice: Selection of files.
        read_as: As for `RecordSource`.
    """

    def __init__(self, choice: FileSelection, read_as: tuple[Any, ...] = ()) -> None:
        super().__init__(choice.open(), read_as)
        self._in_folder = choice.files is None and choice.file_list is None

    def source_info(self, index: int, value: int = 0) -> str:
        """Return the path of the file, relative to the root."""
        # DALI starts the names of files in the root itself with "./".
        name = super().source_info(index, value)
        return f"./{name}" if self._in_folder and "/" not in name else name


def select_files(
    file_root: Path | None, files: Path | Sequence[Path] | None, file_list: Path | None, file_filter: str
) -> FileSelection:
    """Create the selection from the arguments of a reader.

    Raises:
        DefinitionError: Both `files` and `file_list` are set, or no files are specified.
    """
    if files is not None and file_list is not None:
        raise DefinitionError("files and file_list cannot be combined", fix="leave one of them out")
    if files is None and file_list is None and file_root is None:
        raise DefinitionError("there is nothing to read", fix="give file_root, files or file_list")
    return FileSelection(
        None if file_root is None else fspath(file_root),
        None if files is None else as_paths(files),
        None if file_list is None else fspath(file_list),
        file_filter,
    )
