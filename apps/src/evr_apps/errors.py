"""Telling the user's mistakes from ours."""

from __future__ import annotations

import errno
from collections.abc import Iterator

_MEMBERS = ("evr_core", "evr_video", "evr_rewards", "evr_trainer", "evr_eval", "evr_apps")
_OS_REMEDIES = {
    errno.ENOSPC: "the disk is full; free space or choose another output folder",
    errno.EACCES: "permission denied; choose a path that this user may use",
    errno.EROFS: "the file system is read-only; choose another output folder",
    errno.ENOENT: "no such file or folder; check the path",
    errno.ENOTDIR: "a part of the path is a file; check the path",
    errno.EISDIR: "this is a folder; give a file",
    errno.EADDRINUSE: "the address is in use; stop the other process or choose another port",
}


def user_message(error: BaseException) -> str | None:
    """What to tell the user about an error that they can mend; None for a fault, which deserves its traceback.

    An error is the user's when one of our packages raised it as a ``ValueError`` or ``FileNotFoundError`` of its own
    (also in a worker process, which reports it as the cause of another error), or when the operating system refused a
    path.
    """
    for link in _chain(error):
        if isinstance(link, OSError) and link.errno in _OS_REMEDIES:
            path = f"{link.filename}: " if link.filename else ""
            return f"{path}{_OS_REMEDIES[link.errno]}"
        if isinstance(link, ValueError) and _is_ours(link):
            return str(link)
        if isinstance(link, OSError) and link.errno is None and _is_ours(link):
            return str(link)
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, then what a worker process says caused it."""
    yield error
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        yield cause


def _is_ours(error: BaseException) -> bool:
    module = type(error).__module__
    if module.partition(".")[0] in _MEMBERS:
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return str(raised_in).partition(".")[0] in _MEMBERS
