"""Run tasks in processes that can be killed, cheaply: one start-up per program, a fork of milliseconds per lost worker.

Time-outs work from any thread, which signal-based ones do not. A task that uses more than a slice of processor time is
set aside: it keeps its worker, but while others wait for their turn it runs only when the processor is idle. So a few
hanging tasks do not hold up the rest, and still have their time.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from evr_rewards._zygote import receive, send

_MAX_WORKERS: Final = 128
_SLICE_S: Final = 0.05
_WAIT_S: Final = 1.0
_START_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True)
class Task:
    """A call ``module:function(payload)``; payload and answer are JSON values.

    Attributes:
        timeout_s: Limit of this task in place of the caller's.
    """

    handler: str
    payload: Any
    timeout_s: float | None = None


@dataclass
class _Worker:
    channel: socket.socket
    pid: int


@dataclass
class _Running:
    index: int
    worker: _Worker
    started: float
    cpu_started: float
    aside: bool = False

    def is_long(self, now: float) -> bool:
        """Whether the task has used a slice of processor time (waiting for a busy machine does not count), or waits."""
        took = now - self.started
        return took > _SLICE_S and (took > _WAIT_S or _cpu_s(self.worker) - self.cpu_started > _SLICE_S)


class WorkerPool:
    """Workers forked from one prepared process.

    Args:
        preload: Modules that the workers have imported before their first task.
    """

    def __init__(self, preload: Sequence[str] = ()) -> None:
        self._preload = tuple(preload)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def run(self, task: Task, timeout_s: float) -> Any:
        """The answer of one task.

        Raises:
            TimeoutError: it took longer than ``timeout_s``.
            RuntimeError: it raised, or its process died.
        """
        answer = self.map([task], timeout_s=timeout_s)[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def map(
        self, tasks: Sequence[Task], *, timeout_s: float, deadline: float | None = None, lanes: int = 0
    ) -> list[Any]:
        """Answers in order; a failed task's place holds its exception (TimeoutError, RuntimeError).

        Args:
            tasks: What to run.
            timeout_s: Limit for each task, from its start.
            deadline: `time.monotonic()` by which all must be done.
            lanes: Tasks that run at once, not counting those set aside; by default the number of cores.
        """
        return _Run(self, tasks, timeout_s, deadline, lanes or os.cpu_count() or 1).finish() if tasks else []

    def take(self) -> _Worker:
        """An idle worker, or a new one."""
        with self._lock:
            if self._owner != os.getpid():
                self._start()
            if self._idle:
                return self._idle.pop()
            here, there = socket.socketpair()
            with there:
                pid = self._ask(b"F", [there.fileno()])
            return _Worker(here, pid)

    def give(self, worker: _Worker) -> None:
        """Return a worker whose task has ended."""
        with self._lock:
            if len(self._idle) < (os.cpu_count() or 1) * 2 and self._owner == os.getpid():
                self._idle.append(worker)
                return
        worker.channel.close()

    def end(self, worker: _Worker) -> None:
        """Kill a worker."""
        worker.channel.close()
        with self._lock:
            self._ask(b"K%d" % worker.pid, [])

    def close(self) -> None:
        """End all processes; the pool starts again when it is used again."""
        with self._lock:
            self._shut()

    def _start(self) -> None:
        self._shut()
        here, there = socket.socketpair()
        here.settimeout(_START_TIMEOUT_S)
        with there:
            program = [
                sys.executable,
                "-c",
                "from evr_rewards._zygote import main; main()",
                str(there.fileno()),
                *self._preload,
            ]
            self._process = subprocess.Popen(
                program,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._control, self._owner = here, os.getpid()
        weakref.finalize(self, here.close)

    def _shut(self) -> None:
        for worker in self._idle:
            worker.channel.close()
        self._idle.clear()
        if self._control is not None:
            self._control.close()
        if self._process is not None and self._owner == os.getpid():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
        self._control, self._process, self._owner = None, None, 0

    def _ask(self, request: bytes, descriptors: list[int]) -> int:
        """One request to the parent of the workers; when it is gone, the next use starts another."""
        assert self._control is not None
        try:
            socket.send_fds(self._control, [request], descriptors)
            answer = self._control.recv(8)
        except OSError as error:
            answer, reason = b"", str(error)
        else:
            reason = "it ended"
        if len(answer) != 8:
            self._shut()
            raise RuntimeError(f"the process that starts reward workers is gone: {reason}")
        return int(struct.unpack("!q", answer)[0])


@dataclass
class _Run:
    """One call of `WorkerPool.map`."""

    pool: WorkerPool
    tasks: Sequence[Task]
    timeout_s: float
    deadline: float | None
    lanes: int
    answers: list[Any] = field(default_factory=list)
    running: dict[int, _Running] = field(default_factory=dict)
    waiting: deque[int] = field(default_factory=deque)

    def finish(self) -> list[Any]:
        self.answers = [None] * len(self.tasks)
        self.waiting.extend(range(len(self.tasks)))
        with selectors.DefaultSelector() as selector:
            try:
                while self.waiting or self.running:
                    if self.deadline is not None and time.monotonic() >= self.deadline:
                        break
                    while self.waiting and self._free_lane():
                        self._begin(self.waiting.popleft(), selector)
                        if not self.waiting:
                            self._resume()
                    self._collect(selector)
            finally:
                for item in list(self.running.values()):
                    self._drop(item, selector, TimeoutError("not done when the time of the batch was over"))
        for index in self.waiting:
            self.answers[index] = TimeoutError("not started when the time of the batch was over")
        return self.answers

    def _resume(self) -> None:
        """Nobody waits any more: the tasks set aside get their share of the processor back."""
        for item in self.running.values():
            if item.aside:
                _schedule(item.worker, os.SCHED_OTHER)

    def _free_lane(self) -> bool:
        active = sum(not item.aside for item in self.running.values())
        return active < self.lanes and len(self.running) < _MAX_WORKERS

    def _begin(self, index: int, selector: selectors.BaseSelector) -> None:
        task = self.tasks[index]
        for _ in range(2):  # an idle worker may have died meanwhile
            worker = self.pool.take()
            cpu_s = _cpu_s(worker)
            try:
                send(worker.channel, {"handler": task.handler, "payload": task.payload})
            except OSError:
                worker.channel.close()
                continue
            item = _Running(index, worker, time.monotonic(), cpu_s)
            self.running[worker.channel.fileno()] = item
            selector.register(worker.channel, selectors.EVENT_READ, item)
            return
        self.answers[index] = RuntimeError("no worker takes the task")

    def _collect(self, selector: selectors.BaseSelector) -> None:
        for key, _ in selector.select(_SLICE_S / 2):
            item: _Running = key.data
            try:
                reply = receive(item.worker.channel)
            except (OSError, ValueError):
                reply = None
            if reply is None:
                self._drop(item, selector, RuntimeError("the worker died (out of memory or a crash)"))
                continue
            self._forget(item, selector)
            self.answers[item.index] = reply["ok"] if "ok" in reply else RuntimeError(reply["error"])
            if item.aside:
                _schedule(item.worker, os.SCHED_OTHER)
            self.pool.give(item.worker)
        now = time.monotonic()
        for item in list(self.running.values()):
            timeout_s = self.tasks[item.index].timeout_s or self.timeout_s
            if now - item.started > timeout_s:
                self._drop(item, selector, TimeoutError(f"no result after {timeout_s:g} s"))
            elif not item.aside and item.is_long(now):
                item.aside = True
                _schedule(item.worker, os.SCHED_IDLE if self.waiting else os.SCHED_OTHER)

    def _forget(self, item: _Running, selector: selectors.BaseSelector) -> None:
        selector.unregister(item.worker.channel)
        del self.running[item.worker.channel.fileno()]

    def _drop(self, item: _Running, selector: selectors.BaseSelector, error: Exception) -> None:
        self._forget(item, selector)
        self.answers[item.index] = error
        with contextlib.suppress(RuntimeError):
            self.pool.end(item.worker)


def _cpu_s(worker: _Worker) -> float:
    """Processor time that a worker has used, 0 when it is gone."""
    try:
        return time.clock_gettime(
            (~worker.pid << 3) | 2
        )  # CPUCLOCK_SCHED of another process, see clock_getcpuclockid(3)
    except OSError:
        return 0.0


def _schedule(worker: _Worker, policy: int) -> None:
    with contextlib.suppress(OSError):  # gone, or not allowed: then it runs as before
        os.sched_setscheduler(worker.pid, policy, os.sched_param(0))


_POOLS: dict[tuple[str, ...], WorkerPool] = {}


def shared_pool(*preload: str) -> WorkerPool:
    """The pool of this program whose workers have ``preload`` imported."""
    return _POOLS.setdefault(preload, WorkerPool(preload))
