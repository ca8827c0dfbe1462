"""Decoder processes: started when needed, reused, killed when they overrun or die."""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

_PIPE_BYTES = 1 << 20
_LINE_BYTES = 1 << 26
_COMMAND = [sys.executable, "-P", "-m", "evr_video._worker"]


class WorkerDied(Exception):
    """The process ended or overran; ``retry`` tells that it had only gone idle, so that another one may be asked."""

    retry = False


class DecoderProcess:
    """One decoder process and the two pipes to it. Not shared between threads while in use."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        with suppress(OSError):  # a smaller pipe is only slower
            fcntl.fcntl(self._out, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._readable = select.poll()  # select() refuses descriptors above 1023
        self._readable.register(self._out, select.POLLIN)
        self._buffer = bytearray()
        self._deadline = 0.0
        self._timeout_s = 0.0
        self._served = 0

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and read the reply's JSON line; pixels are fetched with ``read_into``."""
        self._timeout_s, self._deadline = timeout_s, time.monotonic() + timeout_s
        reused, self._served = self._served > 0, self._served + 1
        try:
            with suppress(BrokenPipeError):  # reading tells how it ended
                os.write(self._in, json.dumps({**request, "timeout_s": timeout_s}).encode() + b"\n")
            return self.read_line()
        except WorkerDied as died:
            died.retry = reused and self._process.poll() == 0
            raise

    def read_line(self) -> dict[str, Any]:
        """Read one JSON line."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > _LINE_BYTES:
                raise WorkerDied("the decoder process sent no reply that can be read")
            self._wait()
            received = os.read(self._out, _PIPE_BYTES)
            if not received:
                self._ended()
            self._buffer += received
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        reply: dict[str, Any] = json.loads(line)
        return reply

    def read_into(self, target: memoryview) -> None:
        """Fill ``target`` with the bytes that come next."""
        head = min(len(self._buffer), len(target))
        target[:head] = self._buffer[:head]
        del self._buffer[:head]
        while head < len(target):
            self._wait()
            count = os.readv(self._out, [target[head:]])
            if not count:
                self._ended()
            head += count

    def _wait(self) -> None:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0 or not self._readable.poll(remaining * 1000):
            raise WorkerDied(f"decoding took longer than {self._timeout_s:g} s and was stopped")

    def _ended(self) -> NoReturn:
        code = self._process.wait(timeout=10)
        self._errors.seek(max(0, os.fstat(self._errors.fileno()).st_size - 400))
        tail = self._errors.read().decode(errors="replace").strip().splitlines()
        how = f"by signal {-code}" if code < 0 else f"with status {code}"
        raise WorkerDied(f"the decoder process ended {how}" + (f": {tail[-1]}" if tail else ""))

    @property
    def drained(self) -> bool:
        """Whether everything that came was read."""
        return not self._buffer and not self._readable.poll(0)

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """Kill the process and close the pipes."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()


class _Pool:
    """Idle decoder processes of this process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._idle: list[DecoderProcess] = []
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self) -> Iterator[DecoderProcess]:
        worker = self._take()
        done = False
        try:
            yield worker
            done = True
        finally:
            if done and worker.alive and worker.drained:
                with self._lock:
                    self._idle.append(worker)
            else:
                worker.close()

    def _take(self) -> DecoderProcess:
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                return DecoderProcess()
            if worker.alive:
                return worker
            worker.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()


_pools: list[_Pool] = []
_pools_lock = threading.Lock()


@contextmanager
def decoder_process() -> Iterator[DecoderProcess]:
    """Borrow a decoder process; one that failed in the block is killed, not reused."""
    with _pools_lock:
        if not _pools or _pools[-1].owner != os.getpid():  # after a fork the parent's pipes are not ours
            _pools.append(_Pool())
        pool = _pools[-1]
    with pool.borrow() as worker:
        yield worker


@atexit.register
def close_decoders() -> None:
    """End this process's idle decoder processes. They also end by themselves after a minute without work."""
    for pool in _pools:
        if pool.owner == os.getpid():
            pool.close()
