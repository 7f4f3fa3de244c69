"""A plugin of pytest that takes away what Python does not have on Windows: `pytest -p windows_imitation`.

It also imitates some behavior: folders cannot be opened, `os.read` and `os.write` change the ends of lines without
O_BINARY, and `ctypes.CDLL(None)` is an error. The name of the platform stays, because other packages depend on it.
"""

import ctypes
import importlib
import os
import shutil
import signal
import socket
import sys
import tempfile

_ABSENT = {
    os: "register_at_fork fork forkpty pread preadv pwrite pwritev readv writev memfd_create fstatvfs posix_fadvise "
    "posix_fallocate mkfifo sysconf confstr sched_getaffinity sched_setaffinity geteuid getgid getegid getpgid getpgrp "
    "setsid killpg chown fchown lchown wait3 wait4 nice getpriority uname getloadavg O_CLOEXEC O_NONBLOCK O_DIRECTORY "
    "O_NOFOLLOW O_DIRECT O_SYNC O_PATH",
    signal: "pthread_kill pthread_sigmask sigwait SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGCHLD SIGQUIT SIGPIPE SIGSTOP",
    socket: "send_fds recv_fds SCM_RIGHTS",
}
_open, _read, _write, _load = os.open, os.read, os.write, ctypes.CDLL.__init__
_BINARY = 1 << 30
_as_text = set()  # descriptors


def pytest_load_initial_conftests():
    """Imitate Windows before anything imports Penstock."""
    imitate()


def imitate():
    """Take away what Windows does not have, for the rest of the process."""
    # Other packages find what they look for when they are imported.
    for name in ("jax", "numba", "PIL.Image", "scipy.signal", "simplejpeg"):
        importlib.import_module(name)
    sys.modules["numba"].njit(lambda x: x + 1)(1)
    for module, names in _ABSENT.items():
        for name in names.split():
            if hasattr(module, name):  # macOS does not have all of them either
                delattr(module, name)
    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules[name] = None  # an import raises ImportError
    os.O_BINARY = _BINARY
    os.open, os.read, os.write, ctypes.CDLL.__init__ = _opened, _bytes_read, _bytes_written, _loaded
    # These choose calls for folders when they are imported.
    shutil._use_fd_functions = tempfile._O_TMPFILE_WORKS = False


def _opened(path, flags, *arguments, **options):
    if os.path.isdir(path):  # noqa: PTH112  # a path of bytes, too
        raise PermissionError(13, "Permission denied", str(path))
    descriptor = _open(path, flags & ~_BINARY, *arguments, **options)
    (_as_text.discard if flags & _BINARY else _as_text.add)(descriptor)
    return descriptor


def _bytes_read(descriptor, count):
    data = _read(descriptor, count)
    return data.replace(b"\r\n", b"\n").partition(b"\x1a")[0] if descriptor in _as_text else data


def _bytes_written(descriptor, data):
    if descriptor not in _as_text:
        return _write(descriptor, data)
    _write(descriptor, bytes(data).replace(b"\n", b"\r\n"))
    return len(data)


def _loaded(self, name, *arguments, **options):
    if name is None:
        raise TypeError("argument of type 'NoneType' is not iterable")
    _load(self, name, *arguments, **options)
