"""What the run is doing right now, on disk, for whoever finds it dead."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from evr_trainer.tracking.trackers import write_atomically

__all__ = ["PhaseClock"]


@dataclass
class PhaseClock:
    """Times the phases of a step, and keeps ``status.json`` at the phase being run.

    ``status.json``: step, phase, pid of the driver, unix time at which the phase began.
    """

    log_dir: Path
    step: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Run a phase; its wall time adds to ``timing_s/<name>``."""
        status = {"step": self.step, "phase": name, "pid": os.getpid(), "since": time.time()}
        write_atomically(self.log_dir / "status.json", json.dumps(status))
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def start(self, step: int) -> None:
        """Begin a step."""
        self.step = step
        self.seconds = {}

    def metrics(self) -> dict[str, float]:
        """``timing_s/<phase>`` of this step, and ``timing_s/step``, their sum."""
        timings = {f"timing_s/{name}": seconds for name, seconds in self.seconds.items()}
        return {**timings, "timing_s/step": sum(self.seconds.values())}
