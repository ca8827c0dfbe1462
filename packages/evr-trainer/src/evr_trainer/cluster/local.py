"""Start or join a Ray cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["ray_cluster", "require_ray"]

_OBJECT_STORE_BYTES = 256 * 2**20


def require_ray() -> Any:
    """The ray module, imported so that it leaves workers in this process's environment.

    When a program runs under ``uv run``, Ray would otherwise build a fresh environment for every worker.
    """
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray hides accelerators from actors that asked for none; the device is ours to choose.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    return ray


@contextmanager
def ray_cluster(address: str | None, *, num_cpus: int, num_gpus: int = 0) -> Iterator[None]:
    """A connection to a cluster for the time of the block.

    Args:
        address: Of a running cluster; None starts one for this machine alone that ends with the block, or with this
            process if that is killed. Ray opens its ports on every interface and guards them by a token
            (``RAY_AUTH_MODE``, on by default), which only this user's processes can read.
        num_cpus: CPU slots of a cluster started here (logical: workers and scorers share the real cores).
        num_gpus: GPU slots of a cluster started here.
    """
    ray = require_ray()
    if ray.is_initialized():
        yield
        return
    if address is not None:
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    else:
        ray.init(
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
            log_to_driver=False,  # workers report by results and errors; what else they say is in Ray's log folder
            logging_level=logging.ERROR,
        )
    try:
        yield
    finally:
        ray.shutdown()
