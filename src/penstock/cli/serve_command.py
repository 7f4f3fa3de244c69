"""The command `penstock serve PROGRAM[:NAME]`: compute the host part of a definition for trainers."""

import argparse
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.cli.program_run import ProgramName, program_name
from penstock.core.cpu_limits import cpu_limits
from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.engine.input_hosts.chunk_server import ChunkServer
from penstock.engine.input_hosts.chunk_service import ChunkService
from penstock.engine.input_hosts.host_address import TOKEN, HostAddress, parse_address
from penstock.engine.input_hosts.host_metrics import serve_metrics
from penstock.engine.input_hosts.program_table import HostedProgram
from penstock.engine.jobs.loopback import is_loopback
from penstock.errors import PenstockError, UsageError
from penstock.iterate.hosted_definition import HostedDefinition, ProgramFactory


def add_to(commands: Any) -> None:
    """Add the command to an `argparse` parser."""
    parser = commands.add_parser(
        "serve",
        help="compute the host part of a definition for trainers on other machines",
        description="Loads a program without its main block, and computes rows of the batches of its definitions for "
        "trainers with input_hosts=[...] or PENSTOCK_INPUT_HOSTS. Serves until it is ended.",
    )
    parser.add_argument(
        "--listen", default="127.0.0.1:0", metavar="ADDRESS", help="host and port; 127.0.0.1 and a free port by default"
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        type=_mapping,
        metavar="OLD=NEW",
        help="replace OLD at the beginning of paths in the arguments of definitions by NEW; may be repeated",
    )
    parser.add_argument("--threads", type=_threads, default=0, metavar="N", help="threads; one per CPU by default")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate of the host in PEM, for TLS")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="key of the certificate in PEM")
    parser.add_argument(
        "--token", type=Path, metavar="FILE", help=f"file with a secret that trainers must have in {TOKEN}"
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="allow an address other than loopback without TLS: everyone who reaches it can request batches",
    )
    parser.add_argument("--metrics", type=_port, metavar="PORT", help="serve /metrics for Prometheus at this port")
    parser.add_argument(
        "program", type=program_name, metavar="PROGRAM[:NAME]", help="the program, and a definition of it"
    )
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Load the program and serve until a signal ends the process. Returns 1 if it cannot be served."""
    try:
        address, certificate = _secured(parsed)
        token = _token(parsed.token)
        definitions = _definitions(parsed.program)
        count = parsed.threads or cpu_limits().usable
        executor = ThreadExecutor(count, min(max(64, 32 * count), 512), name="penstock-serve")
        factory = ProgramFactory(definitions, parsed.map, executor)
        service = ChunkService(lambda description: HostedProgram(*factory.build(description)), executor)
        server = ChunkServer(address, service, token, certificate)
        metrics = None if parsed.metrics is None else serve_metrics(service, parsed.metrics, address.host)
    except (PenstockError, OSError) as error:
        print(f"penstock serve: {error}", file=sys.stderr)
        return 1
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    print(f"{', '.join(definitions)} at {HostAddress(address.host, server.port, address.tls)}", flush=True)
    if metrics is not None:
        print(f"metrics at port {metrics}", flush=True)
    ended.wait()
    # Answers in progress are cut off: trainers compute their rows elsewhere.
    sys.stdout.flush()
    os._exit(0)


def _secured(parsed: argparse.Namespace) -> tuple[HostAddress, tuple[bytes, bytes] | None]:
    """Return the address and the certificate.

    Raises:
        UsageError: The address can be reached by others, and nothing protects it.
    """
    address = parse_address(parsed.listen)
    if (parsed.tls_cert is None) != (parsed.tls_key is None):
        raise UsageError("TLS needs a certificate and its key", fix="--tls-cert FILE --tls-key FILE")
    certificate = None if parsed.tls_cert is None else (parsed.tls_cert.read_bytes(), parsed.tls_key.read_bytes())
    if certificate is None and address.tls:
        raise UsageError("grpc+tls needs a certificate", fix="--tls-cert FILE --tls-key FILE")
    if certificate is None and not parsed.insecure and not is_loopback(address.host):
        raise UsageError(
            "other machines reach this address, and neither TLS nor a flag protects it",
            given=f"--listen {parsed.listen}",
            expected="a loopback address such as 127.0.0.1:7000, or TLS",
            fix="--tls-cert FILE --tls-key FILE; or --insecure in a network that you trust",
        )
    return HostAddress(address.host, address.port, certificate is not None), certificate


def _token(path: Path | None) -> str:
    token = (os.environ.get(TOKEN, "") if path is None else path.read_text()).strip()
    if path is not None and not token:
        raise UsageError("the file of the token is empty", given=str(path))
    return token


def _definitions(program: ProgramName) -> Mapping[str, HostedDefinition]:
    """Load a program, and return its definitions by their names.

    Raises:
        UsageError: It has no definition, none of the name, or different ones of the same name.
    """
    argv, path = sys.argv, sys.path[:]
    sys.argv = [str(program.script)]
    sys.path.insert(0, str(program.script.resolve().parent))
    try:
        # Not as "__main__": the main block trains.
        names = runpy.run_path(str(program.script), run_name="penstock_program")
    finally:
        # Imports of the definitions still need the folder.
        sys.argv, sys.path[1:] = argv, path
    if program.definition:
        value = names.get(program.definition)
        hosted = HostedDefinition.of(value)
        if hosted is None and callable(value):
            hosted = HostedDefinition(value)
        found = [] if hosted is None else [hosted]
    else:
        found = [hosted for value in names.values() if (hosted := HostedDefinition.of(value)) is not None]
    if not found:
        raise UsageError(
            f"{program.script} has no definition {program.definition!r}"
            if program.definition
            else f"{program.script} has no definition",
            expected="a function decorated with data_iterator or pipeline_def, outside of the main block",
        )
    served: dict[str, HostedDefinition] = {}
    for hosted in found:
        if served.setdefault(hosted.name, hosted).function is not hosted.function:
            variables = [name for name, value in names.items() if _is_named(value, hosted.name)]
            raise UsageError(
                "several definitions have one name, and trainers request a definition by its name",
                given=f"{hosted.name} of {', '.join(variables)}",
                fix=f"penstock serve {program.script}:{variables[0]}; or give each function a name of its own",
            )
    return served


def _is_named(value: Any, name: str) -> bool:
    hosted = HostedDefinition.of(value)
    return hosted is not None and hosted.name == name


def _mapping(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old:
        raise argparse.ArgumentTypeError(f"{text!r} is not OLD=NEW")
    return old, new


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low} to {high}")
        return int(text)

    return parse


_threads, _port = _integer(1, 4096), _integer(0, 65535)
