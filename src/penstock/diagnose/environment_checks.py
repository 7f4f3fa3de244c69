"""Checks of the environment: versions, devices, CPUs, decoders, extras, caches and limits of the system."""

import importlib.metadata
import os
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from penstock.core.atomic_files import user_cache_dir
from penstock.core.cpu_limits import CpuLimits, cpu_limits
from penstock.diagnose.check import Check
from penstock.engine.host.machine_identity import differences, machine_identity
from penstock.engine.input_hosts import json_messages
from penstock.engine.input_hosts.chunk_protocol import STATUS, STATUS_FIELDS
from penstock.engine.input_hosts.host_address import (
    HostAddress,
    HostCredentials,
    addresses_of_environment,
    parse_address,
)
from penstock.engine.input_hosts.host_connection import HostConnection, HostFailureError
from penstock.engine.input_hosts.host_names import resolved
from penstock.engine.jobs.job_environment import detect_job, starter
from penstock.errors import PenstockError, UsageError
from penstock.image.codecs import turbojpeg
from penstock.native.code_cache import code_folders
from penstock.native.trusted_files import UntrustedError, check_folder
from penstock.sources.storage.sample_limit import bytes_of

_PACKAGES = ("penstock", "jax", "jaxlib", "numpy", "numba", "scipy")
_DECODERS = {"simplejpeg": "JPEG", "pillow": "PNG, WebP, BMP, TIFF and others"}

# A reader of an object store may have 64 to 512 connections open, besides the files of the program.
_MIN_OPEN_FILES = 1024

# Docker's default for /dev/shm is 64 MiB, less than one batch of 256 images of 224 x 224 x 3 float32 (154 MB).
_MIN_SHARED_MEMORY = 256 << 20

# Seconds for an input host to answer.
_HOST_SECONDS = 5.0


def environment_checks() -> list[Check]:
    """Return all checks of the environment. Starts the backend of JAX."""
    return [
        *_versions(),
        *_devices(),
        *cpu_checks(cpu_limits()),
        *_decoders(),
        *extra_checks(),
        *_caches(),
        *_system_limits(),
        *job_checks(),
        *host_checks(),
    ]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _versions() -> Iterator[Check]:
    yield Check("versions", "python", platform.python_version())
    for package in _PACKAGES:
        yield Check("versions", package, _version(package))


def _devices() -> Iterator[Check]:
    try:
        import jax  # noqa: PLC0415  # a broken installation of JAX must not hide the other checks

        devices = jax.devices()
    except (ImportError, RuntimeError) as error:
        problem = f"JAX cannot start its backend: {str(error).partition(chr(10))[0]}"
        yield Check("devices", "JAX backend", "none", problem, "unset JAX_PLATFORMS, or install jax for this machine")
        return
    backend = jax.default_backend()
    unused = backend == "cpu" and any(Path("/dev").glob("nvidia[0-9]*"))
    chosen = os.environ.get("JAX_PLATFORMS")
    yield Check(
        "devices",
        "JAX backend",
        backend,
        "the machine has a GPU that JAX does not use" if unused else "",
        ("unset JAX_PLATFORMS" if chosen else 'pip install "jax[cuda12]"') if unused else "",
    )
    kinds = sorted({device.device_kind for device in devices})
    yield Check("devices", "JAX devices", f"{len(devices)} ({', '.join(kinds)})")


def cpu_checks(limits: CpuLimits) -> Iterator[Check]:
    """Yield the checks of the CPUs, which are the number of threads with `num_threads=None`.

    >>> [check.problem for check in cpu_checks(CpuLimits(cores=8, affinity=1, quota=None)) if check.problem]
    ['the process may use 1 of 8 CPUs, so decoding has one thread']
    """
    yield Check("CPUs", "CPUs of the machine", limits.cores)
    yield Check("CPUs", "CPUs in the affinity", limits.affinity)
    yield Check("CPUs", "CPU quota of the control group", "none" if limits.quota is None else limits.quota)
    problem = fix = ""
    if limits.usable == 1 < limits.cores:
        problem = f"the process may use 1 of {limits.cores} CPUs, so decoding has one thread"
        if limits.affinity == 1:
            fix = f"taskset -c 0-{limits.cores - 1} python ..., or --cpus-per-task of SLURM"
        else:
            fix = f"docker run --cpus={limits.cores} ..., or the CPU limit of the container"
    yield Check("CPUs", "threads with num_threads=None", limits.usable, problem, fix)


def _decoders() -> Iterator[Check]:
    for package, formats in _DECODERS.items():
        yield Check("decoders", package, f"{_version(package)}: {formats}")
    state = "not installed"
    if turbojpeg.installed():
        state = "version 3" if turbojpeg.decodes_regions() else "version 2, which decodes no regions"
    yield Check("decoders", "libturbojpeg", f'{state}: JPEG with backend="turbojpeg"')


def extra_checks() -> Iterator[Check]:
    """Yield a check for each extra: "installed", or its missing packages and the command that installs them."""
    try:
        requirements = importlib.metadata.requires("penstock") or []
    except importlib.metadata.PackageNotFoundError:
        yield Check("extras", "penstock", "not installed", "the package has no metadata", "pip install penstock")
        return
    extras: dict[str, list[str]] = {}
    for requirement in requirements:
        package, extra = re.match(r"[\w.-]+", requirement), re.search(r"extra\s*==\s*['\"]([\w.-]+)", requirement)
        if package and extra:
            extras.setdefault(extra[1], []).append(package[0])
    for extra, packages in sorted(extras.items()):
        missing = [package for package in packages if _version(package) == "not installed"]
        if missing:
            yield Check("extras", extra, f"missing: {', '.join(missing)}", fix=f'pip install "penstock[{extra}]"')
        else:
            yield Check("extras", extra, "installed")


def job_checks() -> Iterator[Check]:
    """Yield a check of the launcher that has started this process: what `penstock.launch.initialize` would join."""
    try:
        job = detect_job()
    except UsageError as error:
        problem, *lines = str(error).splitlines()
        fix = next((line for line in lines if line.startswith("  fix:")), "").removeprefix("  fix:").strip()
        yield Check("job", "started by", starter(), problem, fix)
        return
    if job.coordinator is not None:
        number = f"process {job.process_id} of {job.num_processes}, coordinator {job.coordinator}"
        yield Check("job", "started by", f"{job.started_by}: {number}")


def host_checks() -> Iterator[Check]:
    """Yield a check for each input host in the environment: its threads, or why it cannot be reached."""
    fix = "start `penstock serve PROGRAM` there"
    for text in addresses_of_environment():
        try:
            addresses, credentials = resolved(parse_address(text)), HostCredentials.of_environment()
        except (PenstockError, OSError) as error:
            yield Check("input hosts", text, "not reachable", str(error).partition("\n")[0], fix)
            continue
        for address in addresses:
            try:
                yield _host_check(address, credentials)
            except (HostFailureError, json_messages.MessageError) as error:
                yield Check("input hosts", str(address), "not reachable", str(error), fix)


def _host_check(address: HostAddress, credentials: HostCredentials) -> Check:
    """Return the check of an input host that answers.

    Raises:
        HostFailureError, MessageError: It does not.
    """
    connection = HostConnection(address, credentials)
    try:
        answer = json_messages.decode(connection.call(STATUS, b"{}", _HOST_SECONDS), STATUS_FIELDS)
    finally:
        connection.close()
    differing = differences(answer["identity"], machine_identity())
    names = ", ".join(f"{name} {there} instead of {here}" for name, there, here in differing)
    problem = f"it would compute other batches: {names}" if names else ""
    fix = "the same versions on a CPU of the same kind" if names else ""
    return Check("input hosts", str(address), f"{answer['threads']} threads", problem, fix)


def _caches() -> Iterator[Check]:
    compiled = code_folders()[0]
    fix = "set NUMBA_CACHE_DIR to a folder that only you can write to"
    yield cache_check("compiled loops", compiled, fix, "*.code")
    # Machine code from a folder that others can write to would run in this process, so it is not loaded.
    try:
        check_folder(compiled)
    except UntrustedError as error:
        yield Check(
            "caches", "trust in compiled loops", "no", f"loops are compiled by each process: {error.why}", error.fix
        )
    except OSError:  # the folder does not exist yet
        pass
    if (users := user_cache_dir()) is not None:
        yield cache_check("record indexes", users / "indexes", "set XDG_CACHE_HOME to a folder that you can write to")
    size = os.environ.get("PENSTOCK_CACHE_SIZE", "")
    try:
        limit = bytes_of("PENSTOCK_CACHE_SIZE", size) if size else 0
    except UsageError as error:
        yield Check("caches", "remote objects", size, str(error).partition("\n")[0], "PENSTOCK_CACHE_SIZE=50GB")
        return
    if limit:
        home = os.environ.get("PENSTOCK_CACHE_DIR") or str((users or Path()) / "objects")
        fix = "set PENSTOCK_CACHE_DIR to a folder that you can write to"
        yield cache_check(f"remote objects, at most {size}", Path(home), fix)
    else:
        yield Check("caches", "remote objects", "off", fix="PENSTOCK_CACHE_SIZE=50GB keeps them on disk")


def cache_check(name: str, folder: Path, fix: str, pattern: str = "*") -> Check:
    """Return the check of a folder: its path, permissions and size. A problem if it cannot be written.

    Args:
        name: Name of the cache.
        folder: The folder, which may not exist yet.
        fix: Fix for a folder that cannot be written.
        pattern: Names of the files that belong to the cache.
    """
    present = next(path for path in (folder, *folder.parents) if path.exists())
    problem = "" if os.access(present, os.W_OK) and present.is_dir() else f"{present} cannot be written"
    if present != folder:
        return Check("caches", name, f"{folder}, not created yet", problem, fix if problem else "")
    sizes = [path.lstat().st_size for path in folder.rglob(pattern) if path.is_file()] if folder.is_dir() else []
    text = f"{folder}, mode {folder.stat().st_mode & 0o777:o}, {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB"
    return Check("caches", name, text, problem, fix if problem else "")


def _system_limits() -> Iterator[Check]:
    try:
        import resource  # noqa: PLC0415  # only on Unix
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    few = not unlimited and soft < _MIN_OPEN_FILES
    yield Check(
        "limits",
        "open files",
        "unlimited" if unlimited else soft,
        f"readers of object stores and folders may need {_MIN_OPEN_FILES}" if few else "",
        f"ulimit -n {hard if 0 < hard < 4096 else 4096}" if few else "",
    )
    shared = Path("/dev/shm")  # where Linux keeps shared memory
    if shared.is_dir():
        free = shutil.disk_usage(shared).free
        small = free < _MIN_SHARED_MEMORY
        yield Check(
            "limits",
            "free shared memory in MB",
            free / 1e6,
            "external_source(parallel=True) passes batches through it, and they may not fit" if small else "",
            "docker run --shm-size=1g ..., or --ipc=host" if small else "",
        )
