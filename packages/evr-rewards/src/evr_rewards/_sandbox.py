"""Run untrusted Python: own namespaces where the kernel allows, limits always, and nothing left afterwards.

Call it from a worker process (see `_pool`): while a program runs, its worker adopts and then kills every process that
the program leaves behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final

_CHILD: Final = Path(__file__).with_name("_sandbox_child.py")
_PR_SET_CHILD_SUBREAPER: Final = 36
_ENVIRONMENT: Final = {
    "PATH": os.defpath,
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Limits:
    """What one program may use.

    Attributes:
        time_s: Wall-clock seconds; CPU seconds are limited to one more.
        memory_bytes: Address space of each process.
        file_bytes: Size of a file and of the output.
        processes: Processes and threads at once.
    """

    time_s: float = 5.0
    memory_bytes: int = 512 << 20
    file_bytes: int = 4 << 20
    processes: int = 16


@dataclass(frozen=True)
class Finished:
    """How a program ended: its output (cut to the file limit), status (negative: signal), and whether time was up."""

    stdout: str
    stderr: str
    status: int
    timed_out: bool


def run_python(program: str, stdin: str = "", limits: Limits = Limits()) -> Finished:  # noqa: B008 - frozen
    """Run ``program`` with ``stdin`` and wait for its end or the time limit.

    Raises:
        RuntimeError: the sandbox could not be set up; says nothing about the program.
    """
    _adopt_orphans()
    with contextlib.ExitStack() as files:
        texts = (program, stdin, "", "", "")
        code, given, out, err, started = (files.enter_context(_memory_file(text)) for text in texts)
        passed = {"program": code.fileno(), "started": started.fileno()}
        process = subprocess.Popen(
            [sys.executable, "-I", str(_CHILD), json.dumps({**passed, **asdict(limits)})],
            stdin=given,
            stdout=out,
            stderr=err,
            cwd="/",
            env=_ENVIRONMENT,
            start_new_session=True,
            pass_fds=list(passed.values()),
        )
        try:
            timed_out = _wait(process, limits.time_s)
        finally:
            _kill(process)
        if not _read(started, 1):
            raise RuntimeError(
                f"the sandbox did not start the program (status {process.returncode}): {_read(err, 4096)}"
            )
        return Finished(_read(out, limits.file_bytes), _read(err, 4096), process.returncode, timed_out)


def _memory_file(text: str) -> IO[bytes]:
    """A file without a name, so that nothing is left on disk whatever happens; the file limit holds for it too."""
    file = os.fdopen(os.memfd_create("evr-sandbox", os.MFD_CLOEXEC), "w+b", buffering=0)
    file.write(text.encode("utf-8", errors="replace"))
    file.seek(0)
    return file


def _wait(process: subprocess.Popen[bytes], time_s: float) -> bool:
    try:
        process.wait(time_s)
    except subprocess.TimeoutExpired:
        return True
    return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the program's group, then whatever it left behind and this process adopted."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 2
    while (orphans := _children()) and time.monotonic() < deadline:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> list[int]:
    found: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in path.read_text().split()]
    return found


def _adopt_orphans() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _read(file: IO[bytes], limit: int) -> str:
    file.seek(0)
    return file.read(limit).decode("utf-8", errors="replace")
