"""Ray: the cluster, the workers, and what crosses between them."""

from __future__ import annotations

from evr_trainer.cluster.group import WorkerError, WorkerGroup, payload_bytes
from evr_trainer.cluster.local import ray_cluster, require_ray
from evr_trainer.cluster.spec import EngineSpec, PolicySpec, WorkerSpec
from evr_trainer.cluster.worker import Worker

__all__ = [
    "EngineSpec",
    "PolicySpec",
    "Worker",
    "WorkerError",
    "WorkerGroup",
    "WorkerSpec",
    "payload_bytes",
    "ray_cluster",
    "require_ray",
]
