"""The sandbox from inside: a program of its own (standard library only) that shuts the doors and runs the given code.

Doors, as far as the kernel lets them be shut: no network, own process numbers (so that one kill ends all), read-only
files, private temporary folders of limited size, no privileges. Limits on CPU, memory, files and processes hold always;
where there is no private network, sockets are refused by an audit hook.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MS_PRIVATE_REC, _MS_NOSUID_NODEV = (1 << 18) | 0x4000, 2 | 4
_MS_BIND = 4096
_AT_FDCWD, _AT_RECURSIVE, _ATTR_RDONLY, _SYS_MOUNT_SETATTR = -100, 0x8000, 1, 442
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_FIRST_UID = 0x70000000  # far above real users; one for each sandbox, since the kernel counts processes by user
_PYTHON, _SITE = "/tmp/.python", "/tmp/.site"
_RUN = """
import os
os.write({started}, b"1")
os.close({started})
with open({descriptor}, encoding="utf-8") as file:
    program = file.read()
del file
exec(compile(program, "program.py", "exec"), {{"__name__": "__main__", "__builtins__": __builtins__}})
"""
_REFUSALS = """
import sys
def refuse(event, args):
    if event.startswith("socket."):
        raise PermissionError("no network in the sandbox")
    if event == "open" and isinstance(args[0], str) and isinstance(args[2], int) and args[2] & 3:
        raise PermissionError("no writing in the sandbox")
    if event in ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.truncate", "shutil.rmtree"):
        raise PermissionError("no writing in the sandbox")
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "ctypes.dlopen"):
        raise PermissionError("no other programs in the sandbox")
sys.addaudithook(refuse)
"""

libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def main() -> int:
    """Shut the doors, run the program, return its exit status."""
    config = json.loads(sys.argv[1])
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    config["uid"] = _FIRST_UID + os.getpid()
    isolated = _unshare()
    inner = os.fork()
    if inner == 0:
        os._exit(_supervise(config, isolated))
    return _wait(inner)


def _wait(pid: int) -> int:
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _supervise(config: dict[str, float], isolated: bool) -> int:
    """First process of its own number space: when it ends, the kernel kills all others in it."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    python = sys.executable
    if isolated:
        python = _private_files()
        os.chdir("/tmp")
    _drop_privileges(int(config["uid"]))
    child = os.fork()
    if child:
        return _wait(child)
    _limit(config, isolated)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    site = f"import sys; sys.path.append({_SITE!r})\n" if python != sys.executable else ""
    start = (
        site
        + ("" if isolated else _REFUSALS)
        + _RUN.format(descriptor=int(config["program"]), started=int(config["started"]))
    )
    return os.execv(python, [python, "-I", "-c", start])


def _unshare() -> bool:
    """Own network, process numbers, mounts and IPC; as an ordinary user through a user namespace."""
    spaces = _NEWNET | _NEWPID | _NEWNS | _NEWIPC
    if os.geteuid() == 0 and libc.unshare(spaces) == 0:
        return True
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(spaces | _NEWUSER) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    return True


def _private_files() -> str:
    """Read-only view of all files, private temporary folders; the interpreter's path in that view.

    The interpreter is mounted at a path of its own: its folder may be closed to other users (root's home), or lie in a
    temporary folder that is hidden now.
    """
    libc.mount(b"none", b"/", None, _MS_PRIVATE_REC, None)
    attributes = _MountAttr(_ATTR_RDONLY, 0, 0, 0)
    size = ctypes.sizeof(attributes)
    if libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, ctypes.byref(attributes), size) != 0:
        raise OSError(ctypes.get_errno(), "cannot make files read-only in the sandbox (needs Linux 5.12)")
    site = next((folder for folder in sys.path if folder.endswith("site-packages")), sys.base_prefix)
    sources = [(os.open(source, os.O_PATH), target) for source, target in ((sys.base_prefix, _PYTHON), (site, _SITE))]
    for hidden in (b"/tmp", b"/var/tmp", b"/dev/shm"):
        if libc.mount(b"tmpfs", hidden, b"tmpfs", _MS_NOSUID_NODEV, b"size=32m,mode=1777") != 0 and hidden == b"/tmp":
            raise OSError(ctypes.get_errno(), "cannot mount a private /tmp in the sandbox")
    for source, target in sources:
        os.mkdir(target)  # noqa: PTH102
        if libc.mount(f"/proc/self/fd/{source}".encode(), target.encode(), None, _MS_BIND, None) != 0:
            raise OSError(ctypes.get_errno(), f"cannot mount {target} in the sandbox")
        os.close(source)
    libc.mount(b"proc", b"/proc", b"proc", _MS_NOSUID_NODEV, None)
    os.environ["LD_LIBRARY_PATH"] = f"{_PYTHON}/lib"
    return f"{_PYTHON}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"


def _drop_privileges(uid: int) -> None:
    if os.geteuid() == 0 and os.getuid() == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        except OSError:  # a user namespace without that user: its root has no power outside
            return


def _limit(config: dict[str, float], isolated: bool) -> None:
    """Limits of the program. Outside a namespace the process limit counts all of the user's: it comes on top."""
    others = 0 if isolated else sum(len(os.listdir(f"/proc/{pid}/task")) for pid in _own_processes())  # noqa: PTH208
    cpu_s = int(config["time_s"]) + 1
    for kind, value in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, int(config["memory_bytes"])),
        (resource.RLIMIT_FSIZE, int(config["file_bytes"])),
        (resource.RLIMIT_NPROC, others + int(config["processes"])),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _own_processes() -> list[str]:
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.getuid():  # noqa: PTH116
                found.append(name)
        except FileNotFoundError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
