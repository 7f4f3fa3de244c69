"""Folders of files as a part of fingerprints."""

from penstock.sources.storage.file_folders import combined_folders_suffix, folders_suffix, without_folders


def test_the_common_folder_does_not_count(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suffix = folders_suffix(["/a/b/x.tar", "/a/c/x.tar"])
    roots = ["/", "/elsewhere/", "", "./", "more/../", f"{tmp_path}/", "s3://bucket/", "gs://", "https://host/a/"]
    assert {folders_suffix([f"{root}b/x.tar", f"{root}c/x.tar"]) for root in roots} == {suffix}
    # A path may be relative to the working directory, beside an absolute one.
    assert folders_suffix(["b/x.tar", f"{tmp_path}/c/x.tar"]) == suffix
    for others in (("/c/x", "/b/x"), ("/b/x", "/b/c/x"), ("/b/x", "/c/x", "/c/x"), ("/bc/x", "/b/x")):
        assert folders_suffix(others) != suffix


def test_files_of_one_folder_have_no_suffix():
    for paths in (["/a/x.tar", "/a/y.tar"], ["x.tar", "./y.tar"], ["s3://bucket/a/x.tar"], ["s3://b/x", "s3://b/y"]):
        assert folders_suffix(paths) == ""
    assert combined_folders_suffix(["tar:1:a", "tar:2:b"]) == ""


def test_a_suffix_can_be_removed():
    first, second = (f"tar:1:a{folders_suffix(['/b/x', f'/{name}/x'])}" for name in ("c", "d"))
    assert first != second
    assert without_folders(f"{first}+{second}") == "tar:1:a+tar:1:a"
    combined = [combined_folders_suffix(pair) for pair in ([first, second], [second, first], [first, "tar:1:a"])]
    assert len(set(combined)) == 3
    assert {without_folders(f"mix:2:c{suffix}") for suffix in combined} == {"mix:2:c"}
