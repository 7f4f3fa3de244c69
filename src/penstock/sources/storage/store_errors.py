"""Errors of obstore as the OSErrors that local files would raise, with readable messages."""

import errno
import re

CHANGED = "the object has been written to since the data set was opened"
# Part of obstore's error text if a server sends the whole object instead of a range.
NO_RANGES = "Range request not supported"

# Parts of obstore's error texts if no variable names credentials, so that it asked the metadata server of a cloud
# machine, and this is not such a machine. The errors have no type of their own.
_METADATA_REQUESTS = ("/latest/api/token", "/latest/meta-data", "metadata.google", "token request")

# Part of obstore's error text if a key in a listing has an empty part, "." or "..".
_UNREADABLE = "Encountered object with invalid path"

# Error codes of refused requests. obstore has no type for them if a folder is listed.
_REFUSALS = ("AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "RequestTimeTooSkewed", "SignatureDoesNotMatch")


def summary(error: Exception) -> str:
    """Return the store's error code and sentence, else the first line of obstore's text, which may be pages of XML."""
    text = str(error).partition("\n\nDebug source")[0]
    code = re.search(r"<Code>(.*?)</Code>", text)
    sentence = re.search(r"<Message>(.*?)</Message>", text)
    if code:
        return f"{code[1]}: {sentence[1]}" if sentence else code[1]
    status = re.search(r"status code: (\d+ [A-Za-z ]+)", text)
    if status:
        return status[1].strip()
    return text.partition("\n")[0]


def os_error(error: Exception, bucket: str, variables: str) -> OSError:
    """Convert an error of obstore to the OSError that a local file would raise.

    obstore's exception types leave much in their text only, so the text decides where the type does not.

    Args:
        error: The error.
        bucket: Name of the bucket.
        variables: Environment variables with credentials, for messages.
    """
    kind, text = type(error).__name__, summary(error)
    if text.startswith(("NoSuchBucket", "ContainerNotFound")) or "bucket does not exist" in text:
        return FileNotFoundError(errno.ENOENT, f"the bucket {bucket!r} does not exist")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "there is no such object")
    if kind == "PreconditionError":
        return OSError(errno.ESTALE, CHANGED)
    if NO_RANGES in text:
        return OSError(errno.ENOTSUP, "the server gives whole files only, and parts of this one are needed")
    if _UNREADABLE in text:
        key = text.partition('"')[2].partition('"')[0]
        fix = "rename it, or name the other objects in a file_list"
        return OSError(errno.EINVAL, f"it contains an object whose key cannot be read, {key!r}; {fix}")
    if any(part in str(error) for part in _METADATA_REQUESTS):
        return PermissionError(errno.EACCES, f"no credentials are found in the environment; set {variables}")
    refused = isinstance(error, PermissionError) or kind in ("PermissionDeniedError", "UnauthenticatedError")
    if refused or text.startswith(_REFUSALS):
        hint = f"; the credentials come from {variables}" if variables else ""
        return PermissionError(errno.EACCES, f"the store refuses ({text}){hint}")
    return OSError(errno.EIO, f"the store does not give it: {text}")
