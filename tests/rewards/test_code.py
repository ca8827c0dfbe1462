"""Hostile programs cost at most the time limit and leave nothing behind."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from evr_rewards._pool import Task, WorkerPool
from evr_rewards.records import score_record

POOL = WorkerPool(["evr_rewards.scorers._code_tests"])


def run(code: str, tests: list[dict[str, str]], time_s: float = 2.0) -> dict:
    payload = {"code": code, "tests": tests, "time_s": time_s, "total_s": 2 * time_s}
    return POOL.run(Task("evr_rewards.scorers._code_tests:run_tests", payload), 40)


def processes() -> set[str]:
    return {path.name for path in Path("/proc").iterdir() if path.name.isdigit()}


def marked(mark: str) -> list[str]:
    found = []
    for name in processes():
        try:
            command = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in command:
            found.append(name)
    return found


BOMBS = {
    "endless loop": "while True: pass",
    "fork bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "memory": "x = []\nwhile True: x.append(bytearray(10 ** 7))",
    "output": "import sys\nwhile True: sys.stdout.write('x' * 10 ** 6)",
    "huge compile": "x = " + "-" * 90_000 + "1",
    "huge number": "x = 10 ** 10 ** 10",
    "deaf": (
        "import signal, time\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except Exception: pass\nwhile True: time.sleep(1)"
    ),
    "kills its parents": "import os, signal\nos.kill(os.getppid(), 9)\nos.killpg(0, 9)",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bomb(name):
    started = time.monotonic()
    result = run(BOMBS[name], [{"stdin": "", "stdout": "never"}], time_s=1.5)
    assert result["passed"] == [False]
    assert time.monotonic() - started < 8


def test_runaway_child_is_ended():
    code = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        os.execvp('sleep', ['sleep', '98.7654'])\n    os._exit(0)\ntime.sleep(0.3)\nprint('ok')"
    )
    assert run(code, [{"stdin": "", "stdout": "ok"}])["passed"] == [True]
    time.sleep(0.3)
    assert marked("98.7654") == []


def test_no_network():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)\nprint('in')"
        assert run(code, [{"stdin": "", "stdout": "in"}])["passed"] == [False]


def test_no_file_outside(tmp_path):
    tmp_path.chmod(0o777)
    target = tmp_path / "made"
    run(f"open({str(target)!r}, 'w').write('x')", [{"stdin": "", "stdout": ""}])
    assert not target.exists()


def test_no_secrets(monkeypatch):
    monkeypatch.setenv("EVR_TEST_SECRET", "hush")
    code = "import os\nprint(os.environ.get('EVR_TEST_SECRET'))"
    assert run(code, [{"stdin": "", "stdout": "None"}])["passed"] == [True]


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        "import sys; sys.exit()",
        "raise SystemExit(0)",
        "import os, signal; os.kill(os.getpid(), 9)",
    ],
)
def test_leaving_early_passes_no_assertion(code):
    assert run(code, [{"check": "assert f() == 1"}])["passed"] == [False]


def test_tests_do_not_see_each_other():
    code = "state = []\ndef f():\n    state.append(1)\n    return len(state)"
    assert run(code, [{"check": "assert f() == 1"}] * 3)["passed"] == [True, True, True]


def test_partial_credit_and_details():
    record = {
        "response": "<answer>```python\ndef double(x):\n    return 2 * x if x < 3 else 0\n```</answer>",
        "ground_truth": "",
        "problem_type": "code",
        "tests": ["assert double(1) == 2", "assert double(2) == 4", "assert double(3) == 6", "double(None)"],
    }
    result = score_record(record)
    assert result.accuracy == 0.5
    assert (result.detail["tests"], result.detail["passed"]) == (4, 2)


def test_runs_as_nobody_when_root():
    if os.getuid() != 0:
        pytest.skip("only root drops to another user")
    assert run("import os\nprint(os.getuid() != 0)", [{"stdin": "", "stdout": "True"}])["passed"] == [True]
