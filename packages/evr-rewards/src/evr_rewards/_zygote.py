"""A process that imports slow libraries once and forks workers on demand; its own program, started by `_pool`.

It listens on one socket: "F" with a file descriptor asks for a worker on it (answer: its pid), "K<pid>" ends a worker.
When the parent goes away the socket closes, and all workers are killed. Workers answer JSON requests
``{"handler": "module:function", "payload": ...}`` with ``{"ok": ...}`` or ``{"error": text}``, behind a 4-byte length.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import Any, Final

_EXTRA_MEMORY_BYTES: Final = 2 << 30
_LENGTH: Final = struct.Struct("!I")


def send(channel: socket.socket, message: Any) -> None:
    """Send one JSON message."""
    data = json.dumps(message).encode()
    channel.sendall(_LENGTH.pack(len(data)) + data)


def receive(channel: socket.socket) -> Any:
    """Receive one JSON message; None at the end of the stream."""
    head = _exactly(channel, _LENGTH.size)
    data = _exactly(channel, _LENGTH.unpack(head)[0]) if head else b""
    return json.loads(data) if data else None


def _exactly(channel: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = channel.recv(min(size, 1 << 16))
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def work(channel: socket.socket) -> None:
    """Answer requests until the other side closes."""
    while (request := receive(channel)) is not None:
        try:
            module, _, name = request["handler"].partition(":")
            reply = {"ok": getattr(importlib.import_module(module), name)(request["payload"])}
        except (Exception, RecursionError, MemoryError) as error:  # noqa: BLE001 - goes back to the caller as a failure
            reply = {"error": f"{type(error).__name__}: {error}"[:500]}
        send(channel, reply)


def _limit_memory() -> None:
    """Allow some memory beyond what is mapped now, so that a huge number ends in MemoryError, not in swap."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    limit = used + _EXTRA_MEMORY_BYTES
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _fork(control: socket.socket, descriptor: int) -> int:
    pid = os.fork()
    if pid:
        os.close(descriptor)
        return pid
    try:
        control.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setpgid(0, 0)
        _limit_memory()
        work(socket.socket(fileno=descriptor))
    finally:
        os._exit(0)


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def serve(control: socket.socket) -> None:
    """Fork and end workers until the parent goes away."""
    children: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 64, 1)
        if not data:
            break
        for pid in list(children):
            done, _ = os.waitpid(pid, os.WNOHANG)
            if done:
                children.discard(pid)
        if data[:1] == b"F":
            pid = _fork(control, descriptors[0])
            children.add(pid)
            control.sendall(struct.pack("!q", pid))
        elif (pid := int(data[1:])) in children:
            _end(pid)  # a later round collects it: a low-priority process may take its time to die
            control.sendall(struct.pack("!q", pid))
        else:
            control.sendall(struct.pack("!q", 0))
    for pid in children:
        _end(pid)
    for pid in children:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def main() -> None:
    """Program: the control socket's descriptor, then the modules to import."""
    for name in sys.argv[2:]:
        importlib.import_module(name)
    serve(socket.socket(fileno=int(sys.argv[1])))
