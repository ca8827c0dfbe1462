"""The workers of a run as one object: calls go to all ranks at once, and what crosses Ray is counted."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from evr_trainer.cluster.local import require_ray
from evr_trainer.cluster.spec import WorkerSpec
from evr_trainer.cluster.worker import Worker

__all__ = ["WorkerError", "WorkerGroup", "payload_bytes"]


class WorkerError(RuntimeError):
    """A worker failed or died; the message names its rank and what it was doing."""


def payload_bytes(value: object) -> int:
    """Bytes that ``value`` takes when Ray carries it to another process."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(body) + sum(buffer.raw().nbytes for buffer in buffers)


@dataclass
class WorkerGroup:
    """W workers. ``bytes_crossed`` counts what went to and came from them since it was last reset."""

    handles: list[Any]
    bytes_crossed: int = 0

    @classmethod
    def start(cls, spec: WorkerSpec) -> WorkerGroup:
        """Start ``spec.world_size`` workers, connect them and build their models."""
        ray = require_ray()
        actor = ray.remote(Worker)
        resources: dict[str, Any] = {"num_gpus": 1} if spec.device == "cuda" else {}
        environment = {"OMP_NUM_THREADS": str(spec.num_threads), "TOKENIZERS_PARALLELISM": "false"}
        handles = [
            actor.options(
                num_cpus=1, runtime_env={"env_vars": environment}, name=None, max_restarts=0, **resources
            ).remote(replace(spec, rank=rank))
            for rank in range(spec.world_size)
        ]
        group = cls(handles)
        try:
            host, port = group._rendezvous(spec)
            group.all("connect", host, port)
            group.all("build")
        except BaseException:
            group.kill()
            raise
        return group

    def __len__(self) -> int:
        return len(self.handles)

    def all(self, method: str, *args: Any) -> list[Any]:
        """Call on every rank with the same arguments."""
        return self.each(method, [args] * len(self))

    def each(self, method: str, args_per_rank: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call on every rank with its own arguments; results by rank.

        Raises:
            WorkerError: When a rank fails; the others are not waited for.
        """
        return self.wait(method, self.submit(method, args_per_rank))

    def submit(self, method: str, args_per_rank: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Start a call on every rank and return at once."""
        self.bytes_crossed += sum(payload_bytes(args) for args in args_per_rank)
        return [getattr(handle, method).remote(*args) for handle, args in zip(self.handles, args_per_rank, strict=True)]

    def wait(self, method: str, pending: Sequence[Any]) -> list[Any]:
        """Results of ``submit``, by rank."""
        ray = require_ray()
        left = list(pending)
        while left:  # one by one as they end, so that a dead rank is seen while others wait for it in a collective
            done, left = ray.wait(left, num_returns=1)
            try:
                ray.get(done[0])
            except ray.exceptions.RayTaskError as error:
                rank = list(pending).index(done[0])
                cause = error.cause if isinstance(error.cause, Exception) else error
                if isinstance(cause, ValueError):
                    raise cause from error
                raise WorkerError(f"worker {rank} failed in {method}: {cause}") from error
            except ray.exceptions.RayError as error:
                rank = list(pending).index(done[0])
                raise WorkerError(
                    f"worker {rank} died in {method}: {error}. Run the same command again to continue from the last "
                    "checkpoint; if it dies again, look into Ray's log folder (/tmp/ray/session_latest/logs unless set "
                    "otherwise) and for the out-of-memory killer in the kernel log"
                ) from error
        results = ray.get(list(pending))
        self.bytes_crossed += sum(payload_bytes(result) for result in results)
        return list(results)

    def take_bytes(self) -> int:
        """Bytes crossed since the last call."""
        crossed, self.bytes_crossed = self.bytes_crossed, 0
        return crossed

    def close(self) -> None:
        """End the workers."""
        ray = require_ray()
        with suppress(ray.exceptions.RayError, TimeoutError):  # they are killed next, whatever state they are in
            ray.get([handle.close.remote() for handle in self.handles], timeout=5)
        self.kill()

    def kill(self) -> None:
        """End the workers at once, whatever they are doing."""
        ray = require_ray()
        for handle in self.handles:
            ray.kill(handle)

    def _rendezvous(self, spec: WorkerSpec) -> tuple[str, int]:
        """The group's master address, once worker 0 has started."""
        ray = require_ray()
        try:
            host, port = ray.get(self.handles[0].rendezvous.remote(), timeout=spec.collective_timeout_s)
        except ray.exceptions.GetTimeoutError as error:
            need = f"{spec.world_size} CPUs" + (f" and {spec.world_size} GPUs" if spec.device == "cuda" else "")
            raise WorkerError(
                f"worker 0 did not start within {spec.collective_timeout_s:g} s: the cluster must have {need} free; it "
                f"has {ray.available_resources()}"
            ) from error
        return str(host), int(port)
