"""The three ways to say which files are samples, whatever is in them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from os import fspath

from penstock.errors import DefinitionError
from penstock.sources.files.class_folders import class_folder_stamp, list_files
from penstock.sources.files.file_lists import files_from_name_list, files_from_paths
from penstock.sources.files.file_source import FileSource
from penstock.sources.files.path_arguments import Path, as_paths
from penstock.sources.record_source import RecordSource
from penstock.sources.storage.file_stamps import file_stamps


@dataclass(frozen=True)
class FileSelection:
    """A folder with its folders, a list of paths, or a text file with a path per line.

    Args:
        root: the folder; with one of the others, what paths are relative to.
        files: the paths; None without.
        file_list: the text file; None without.
        file_filter: which files of the folder count.
    """

    root: str | None
    files: tuple[str, ...] | None
    file_list: str | None
    file_filter: str

    def open(self) -> FileSource:
        """The files; see `from_tree`, `from_files` and `from_names`."""
        if self.files is not None:
            return files_from_paths(self.root or "", self.files, None)
        if self.file_list is not None:
            return files_from_name_list(self.file_list, self.root)
        return list_files(self.root or "", self.file_filter)

    def stamp(self) -> Hashable:
        """What changes when other files would be found, or another first one, which tells what all have."""
        if self.files is not None:
            return file_stamps(*(f"{self.root}/{path}" if self.root else path for path in self.files[:1]))
        if self.file_list is not None:
            return file_stamps(self.file_list)
        return class_folder_stamp(self.root or "")


class SelectedFilesSource(RecordSource[FileSource]):
    """A source with a sample per file, whatever is in them.

    Args:
        choice: which files.
    """

    def __init__(self, choice: FileSelection) -> None:
        super().__init__(choice.open())
        self._in_folder = choice.files is None and choice.file_list is None

    def source_info(self, index: int, value: int = 0) -> str:
        """The file's path as the data set has it; in the folder itself, as DALI has it there."""
        name = super().source_info(index, value)
        return f"./{name}" if self._in_folder and "/" not in name else name


def select_files(
    reader: str, file_root: Path | None, files: Path | Sequence[Path] | None, file_list: Path | None, file_filter: str
) -> FileSelection:
    """What a reader's arguments say.

    Raises:
        DefinitionError: two lists, or nothing.
    """
    if files is not None and file_list is not None:
        raise DefinitionError(f"{reader}: either files or file_list")
    if files is None and file_list is None and file_root is None:
        raise DefinitionError(f"{reader} has nothing to read", fix="give file_root, files or file_list")
    return FileSelection(
        None if file_root is None else fspath(file_root),
        None if files is None else as_paths(files),
        None if file_list is None else fspath(file_list),
        file_filter,
    )
