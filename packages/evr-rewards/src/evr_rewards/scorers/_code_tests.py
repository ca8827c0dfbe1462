"""Run a program's tests in the sandbox. Runs in a worker process of the pool."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any, Final

from evr_rewards._sandbox import Limits, run_python

# Runs each test in a process of its own and says which passed. A test passes when it reaches the line that tells the
# secret word: leaving early (sys.exit, os._exit) is no pass.
_HARNESS: Final = """
import json, os, select, signal, time
TESTS, CODE, WORD, LIMIT, END = json.loads(open(0).read())
END += time.monotonic()

def run(test):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        def child(code, test, word):
            space = {"__name__": "solution"}
            try:
                exec(compile(code, "solution.py", "exec"), space)
                exec(compile(test, "test.py", "exec"), space)
            except BaseException:
                os._exit(1)
            os.write(write, word.encode())
            os._exit(0)
        child(CODE, test, WORD)
    os.close(write)
    ready = select.select([read], [], [], max(0.01, min(LIMIT, END - time.monotonic())))[0]
    said = os.read(read, 100).decode() if ready else ""
    os.close(read)
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            pass
    os.waitpid(pid, 0)
    return said == WORD

print(json.dumps([run(test) for test in TESTS]))
"""


def run_tests(payload: dict[str, Any]) -> dict[str, Any]:
    """Run ``payload["code"]`` against ``payload["tests"]``.

    Args:
        payload: ``code``; ``tests``, each ``{"stdin": ..., "stdout": ...}`` or ``{"check": code}``; ``time_s``
            for one test and ``total_s`` for all.

    Returns:
        ``passed``: one truth value per test; ``timed_out``: some test did not end in time.
    """
    end = time.monotonic() + payload["total_s"]
    passed: dict[int, bool] = {}
    timed_out = False
    checks = [index for index, test in enumerate(payload["tests"]) if "check" in test]
    for index, test in enumerate(payload["tests"]):
        if "check" in test:
            continue
        left = end - time.monotonic()
        if left <= 0:
            timed_out = True
            break
        done = run_python(payload["code"], test["stdin"], Limits(time_s=min(payload["time_s"], left)))
        timed_out |= done.timed_out
        passed[index] = not done.timed_out and done.status == 0 and same_output(done.stdout, test["stdout"])
    if checks:
        results, late = _checks(payload, checks, max(0.1, end - time.monotonic()))
        passed.update(zip(checks, results, strict=True))
        timed_out |= late
    return {"passed": [passed.get(index, False) for index in range(len(payload["tests"]))], "timed_out": timed_out}


def _checks(payload: dict[str, Any], indices: list[int], total_s: float) -> tuple[list[bool], bool]:
    tests = [payload["tests"][index]["check"] for index in indices]
    given = json.dumps([tests, payload["code"], secrets.token_hex(16), payload["time_s"], total_s])
    done = run_python(_HARNESS, given, Limits(time_s=total_s + 1))
    try:
        results = json.loads(done.stdout)
    except ValueError:
        return [False] * len(indices), done.timed_out
    valid = isinstance(results, list) and len(results) == len(indices)
    return ([item is True for item in results] if valid else [False] * len(indices)), done.timed_out


def same_output(found: str, expected: str) -> bool:
    """Whether two outputs agree: same lines up to trailing blanks, or the same words with numbers equal to 1e-6."""
    if [line.rstrip() for line in found.rstrip().splitlines()] == [
        line.rstrip() for line in expected.rstrip().splitlines()
    ]:
        return True
    ours, theirs = found.split(), expected.split()
    return len(ours) == len(theirs) and all(map(_same_word, ours, theirs))


def _same_word(found: str, expected: str) -> bool:
    if found == expected:
        return True
    try:
        return "." in found + expected and abs(float(found) - float(expected)) <= 1e-6 * max(1.0, abs(float(expected)))
    except ValueError:
        return False
