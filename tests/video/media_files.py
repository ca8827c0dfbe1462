"""Real media for the tests: small videos and pictures, written here."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image


def picture(index, height, width, seed=0):
    """A frame [height, width, 3] that differs from its neighbours and has edges and gradients."""
    rows, columns = np.mgrid[:height, :width]
    channels = (columns * 2 + index * 5 + seed, rows * 3 + index * 3, rows + columns + index * 7)
    frame = (np.stack(channels, -1) % 256).astype(np.uint8)
    left = (index * 3) % (width // 2)
    frame[height // 4 : height // 2, left : left + width // 4] = (255, 0, 0)
    return frame


def write_video(path, frames=24, height=96, width=128, fps=8, gop=8, pts=None, seed=0, options=None):
    """Write H.264 with B-frames; ``pts`` gives times in 1/600 s instead of a constant rate."""
    with av.open(str(path), "w", options=options or {}) as container:
        stream = container.add_stream("libx264", rate=fps)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = {"crf": "20", "g": str(gop), "bf": "2", "threads": "1"}
        if pts is not None:
            stream.codec_context.time_base = Fraction(1, 600)
        for index in range(frames):
            frame = av.VideoFrame.from_ndarray(picture(index, height, width, seed), format="rgb24")
            if pts is not None:
                frame.pts, frame.time_base = pts[index], Fraction(1, 600)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return Path(path)


def write_image(path, height=70, width=90, mode="RGB", seed=0):
    Image.fromarray(picture(3, height, width, seed)).convert(mode).save(path)
    return Path(path)


def rotate_track(path, degrees):
    """Set the display matrix of an MP4's track header: clockwise by 90, 180 or 270 degrees."""
    cosine, sine = {90: (0, 1), 180: (-1, 0), 270: (0, -1)}[degrees]
    one = 1 << 16
    matrix = struct.pack(">9i", cosine * one, sine * one, 0, -sine * one, cosine * one, 0, 0, 0, 1 << 30)
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 40  # version 0: flags, times, id, duration, reserved, layer, group, volume
    data[at : at + 36] = matrix
    path.write_bytes(data)
    return path


def all_frames(path):
    """Every frame of a video in displayed order, the slow and obvious way. [N, H, W, 3] and times in seconds [N]"""
    with av.open(str(path)) as container:
        decoded = list(container.decode(video=0))
    return np.stack([frame.to_ndarray(format="rgb24") for frame in decoded]), [float(frame.time) for frame in decoded]
