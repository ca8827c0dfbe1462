"""The worker: one process a device, with the policy, the reference and the rollout engine side by side.

It knows nothing of rewards, data order or logging. Every public method is called on all ranks at once.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import psutil
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from evr_trainer.assets import quiet_transformers
from evr_trainer.carriers import PromptBatch, ResponseBatch, RolloutBatch
from evr_trainer.checkpoint.sharded import load_optimizer, load_weights, save_optimizer, save_weights
from evr_trainer.cluster.local import require_ray
from evr_trainer.cluster.spec import WorkerSpec
from evr_trainer.metrics import MetricSums
from evr_trainer.policy.micro import MicroBatch
from evr_trainer.policy.model import DTYPES, full_named_parameters, load_model, shard_model
from evr_trainer.policy.objective import Objective
from evr_trainer.policy.optim import make_adamw
from evr_trainer.policy.policy import Policy, Sampling
from evr_trainer.rollout import RolloutEngine, SamplingParams, forbidden_token_ids, make_engine

__all__ = ["Worker"]


class Worker:
    """A rank of the training job. Build order: construct, ``connect``, ``build``."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.device = torch.device("cuda:0" if spec.device == "cuda" else "cpu")
        torch.set_num_threads(spec.num_threads)
        self._policy: Policy | None = None
        self._reference: Policy | None = None
        self._engine: RolloutEngine | None = None
        self._weights_are_new = True

    def pid(self) -> int:
        """This process's id, for messages and tests."""
        return os.getpid()

    def rendezvous(self) -> tuple[str, int]:
        """An address at which this worker can be the group's master."""
        host = "127.0.0.1" if self.spec.loopback_only else str(require_ray().util.get_node_ip_address())
        with socket.socket() as probe:
            probe.bind((host, 0))
            return host, int(probe.getsockname()[1])

    def connect(self, host: str, port: int) -> None:
        """Join the process group (NCCL on CUDA, gloo on CPU)."""
        spec = self.spec
        # torch.distributed and vLLM's external launcher read the group from the environment of their process.
        os.environ.update(
            MASTER_ADDR=host,
            MASTER_PORT=str(port),
            RANK=str(spec.rank),
            WORLD_SIZE=str(spec.world_size),
            LOCAL_RANK="0",
        )
        if spec.loopback_only and spec.device == "cpu":
            os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group(
            "nccl" if spec.device == "cuda" else "gloo",
            rank=spec.rank,
            world_size=spec.world_size,
            timeout=timedelta(seconds=spec.collective_timeout_s),
        )

    def build(self) -> None:
        """Load the models and, when there is to be rollout, the engine."""
        from transformers import AutoProcessor

        quiet_transformers()
        policy = self.spec.policy
        processor = AutoProcessor.from_pretrained(policy.tokenizer_path, trust_remote_code=False)
        sampling = Sampling(policy.temperature, tuple(forbidden_token_ids(processor.tokenizer)))
        mesh = init_device_mesh(self.spec.device, (self.spec.world_size,))

        def sharded_policy(*, trained: bool) -> Policy:
            model = load_model(
                policy.model_path,
                dtype=DTYPES[policy.param_dtype],
                device=self.device,
                freeze_vision=policy.freeze_vision_tower,
            )
            if trained and policy.gradient_checkpointing:
                model.gradient_checkpointing_enable()  # type: ignore[operator]
            shard_model(
                model,
                mesh,
                param_dtype=DTYPES[policy.compute_dtype],
                reduce_dtype=DTYPES[policy.reduce_dtype],
                reshard_after_forward=policy.reshard_after_forward,
                cpu_offload=policy.cpu_offload,
            )
            if not trained:
                model.requires_grad_(False)
            # lr here is a placeholder: every update sets its own.
            optimizer = (
                make_adamw(model, lr=0.0, betas=policy.betas, weight_decay=policy.weight_decay) if trained else None
            )
            return Policy(model, processor, sampling=sampling, optimizer=optimizer, world_size=self.spec.world_size)

        self._policy = sharded_policy(trained=self.spec.with_optimizer)
        if self.spec.with_reference:
            self._reference = sharded_policy(trained=False)
        if self.spec.engine is not None:
            engine = self.spec.engine
            self._engine = make_engine(
                engine.name,
                policy.model_path,
                device=str(self.device),
                dtype=engine.dtype,
                max_model_len=engine.max_model_len,
                max_num_seqs=engine.max_num_seqs,
                **engine.options,  # type: ignore[arg-type]
            )
            self._engine.sleep()

    def rollout(self, batch: PromptBatch, sampling: SamplingParams) -> RolloutBatch:
        """Sample responses for this rank's prompts with the policy's current weights."""
        assert self._engine is not None
        self._engine.wake()
        if self._weights_are_new:
            self._engine.load_weights(full_named_parameters(self.policy.model))
            self._weights_are_new = False
        responses = self._engine.generate(batch.prompts, sampling, batch["seeds"].tolist()) if len(batch) else []
        self._engine.sleep()
        return RolloutBatch.of(batch.prompts, responses, n=sampling.n)

    def log_probs(self, batch: ResponseBatch, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """Log-probs of the responses under the policy. [G, n, R]"""
        return self.policy.log_probs(batch, micro_batches, stage="log-prob")

    def reference_log_probs(self, batch: ResponseBatch, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """Log-probs of the responses under the reference. [G, n, R]"""
        assert self._reference is not None
        return self._reference.log_probs(batch, micro_batches, stage="reference log-prob")

    def update(
        self,
        batch: ResponseBatch,
        micro_batches: Sequence[MicroBatch],
        objective: Objective,
        lr: float,
        max_grad_norm: float,
    ) -> MetricSums:
        """One optimizer step over all ranks; returns this rank's sums."""
        metrics = self.policy.update(batch, micro_batches, objective, lr=lr, max_grad_norm=max_grad_norm)
        self._weights_are_new = True
        return metrics

    def save(self, actor_dir: str, with_optimizer: bool) -> None:
        """Write this rank's part of a checkpoint."""
        save_weights(self.policy.model, Path(actor_dir) / "model")
        if with_optimizer and self.policy.optimizer is not None:
            save_optimizer(self.policy.model, self.policy.optimizer, Path(actor_dir) / "optimizer")

    def load(self, actor_dir: str) -> None:
        """Read weights and, where the checkpoint has it, optimizer state."""
        folder = Path(actor_dir)
        load_weights(self.policy.model, folder / "model")
        if self.policy.optimizer is not None and (folder / "optimizer.json").is_file():
            load_optimizer(self.policy.model, self.policy.optimizer, folder / "optimizer")
        self._weights_are_new = True

    def memory(self) -> dict[str, float]:
        """Resident host memory and, on CUDA, the peak of device memory, in GiB."""
        usage = {"host_rss_gib": psutil.Process().memory_info().rss / 2**30}
        if self.spec.device == "cuda":
            usage["device_peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        return usage

    def close(self) -> None:
        """Free the engine and leave the group."""
        if self._engine is not None:
            self._engine.close()
        if dist.is_initialized():
            dist.destroy_process_group()

    @property
    def policy(self) -> Policy:
        """The policy, once built."""
        if self._policy is None:
            raise RuntimeError("the worker has no policy yet: call build first")
        return self._policy
