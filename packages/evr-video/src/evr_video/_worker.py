"""The decoder process: reads untrusted files so that a hang, a crash or a memory bomb stays here.

It answers one request at a time: a JSON line comes in on stdin, a JSON line goes out on stdout, and pixels follow it as
raw bytes. Before each frame goes one byte, ``F``, or ``E`` and a JSON line with the reason when decoding broke off.
It imports neither torch nor transformers (torchcodec brings torch when it is asked for), and ends by itself when idle.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

IDLE_S = 60.0


def main() -> None:
    """Serve requests until stdin closes or nothing comes for a minute."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a library prints must not reach the replies
    while select.select([requests], [], [], IDLE_S)[0]:
        line = requests.readline()
        if not line:
            return
        request = json.loads(line)
        signal.alarm(int(request["timeout_s"]) + 5)  # the kernel ends us even if the parent is gone
        _answer(request, replies)
        signal.alarm(0)


def _answer(request: dict[str, Any], out: BinaryIO) -> None:
    from evr_video._readers import ReadError

    try:
        _OPERATIONS[request["op"]](request, out)
    except ReadError as error:
        _send(out, {"ok": False, "reason": str(error)})
    except MemoryError:
        _send(out, {"ok": False, "reason": "not enough memory"})


def _probe(request: dict[str, Any], out: BinaryIO) -> None:
    scan = _scan(request)
    fields = ("num_frames", "fps", "height", "width", "duration_s")
    _send(out, {"ok": True, **{name: getattr(scan, name) for name in fields}})


def _video(request: dict[str, Any], out: BinaryIO) -> None:
    from evr_video._readers import ReadError, reader_for

    scan = _scan(request)
    read = reader_for(request["backend"])
    indices = request["indices"]
    if indices[-1] >= scan.num_frames:
        raise ReadError(f"frame {indices[-1]} was asked for, the stream has {scan.num_frames}")
    frames = read(request["path"], scan, indices, request["threads"])
    first = next(frames)
    if first.shape != (scan.height, scan.width, 3):
        raise ReadError(f"frames are {first.shape}, expected {(scan.height, scan.width, 3)}")
    times = [scan.time_of(index) for index in indices]
    _send(out, {"ok": True, "height": scan.height, "width": scan.width, "timestamps_s": times})
    _send_frame(out, first)
    try:
        for frame in frames:
            _send_frame(out, frame)
    except ReadError as error:
        _write(out, b"E")
        _send(out, {"ok": False, "reason": str(error)})


def _image_size(request: dict[str, Any], out: BinaryIO) -> None:
    from evr_video._image import open_image

    with open_image(request["path"]) as image:
        _send(out, {"ok": True, "height": image.height, "width": image.width})


def _image(request: dict[str, Any], out: BinaryIO) -> None:
    from evr_video._image import open_image, read_rgb

    with open_image(request["path"]) as image:
        pixels = read_rgb(image, request["height"], request["width"])
    _send(out, {"ok": True})
    _send_frame(out, pixels)


_OPERATIONS = {"probe": _probe, "video": _video, "image_size": _image_size, "image": _image}
_last_scan: list[Any] = []  # [key, scan] of the last file: a probe is usually followed by a decode


def _scan(request: dict[str, Any]) -> Any:
    from evr_video._scan import scan_video

    stat = Path(request["path"]).stat()
    key = (request["path"], stat.st_ino, stat.st_size, stat.st_mtime_ns)
    if not _last_scan or _last_scan[0] != key:
        _last_scan[:] = [key, scan_video(request["path"])]
    return _last_scan[1]


def _send(out: BinaryIO, reply: dict[str, Any]) -> None:
    _write(out, json.dumps(reply).encode() + b"\n")


def _send_frame(out: BinaryIO, pixels: np.ndarray[Any, Any]) -> None:
    _write(out, b"F")
    _write(out, np.ascontiguousarray(pixels).reshape(-1).data)


def _write(out: BinaryIO, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[out.write(view) :]


if __name__ == "__main__":
    main()
