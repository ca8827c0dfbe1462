"""Rollout with vLLM, in the same process as the policy.

vLLM is imported, and the environment variables it reads are set, when an engine is made; never at import.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch

from evr_trainer.rollout._vllm_prompt import check_prompt_ids, vllm_prompt
from evr_trainer.rollout._vllm_sampler import keep_log_probs_before_truncation
from evr_trainer.rollout.engine import EngineOptions, Response, SamplingParams, check_request
from evr_trainer.rollout.sampling import response_seed
from evr_trainer.rollout.tokens import end_token_ids, forbidden_token_ids
from evr_trainer.rollout.weights import WeightLedger

if TYPE_CHECKING:
    from evr_video import EncodedPrompt

logger = logging.getLogger(__name__)


class VllmEngine:
    """One vLLM model in this process; inside a torch.distributed group it joins it as an external launcher.

    RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT must then be set; LOCAL_RANK is the device's index as this process
    sees its devices (0 in a Ray actor that sees one). Outside a group vLLM makes one of its own, so a process that
    wants a group must have it first.

    With ``tensor_parallel_size`` > 1 every member of a tensor-parallel group must make the same calls with the same
    arguments, and gets the same responses.
    """

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._borrowed_group = torch.distributed.is_initialized()
        _check_placement(options)
        _set_environment(options)
        self._llm: Any = _llm_class()(**_llm_arguments(options))
        _quieten()
        if self._borrowed_group:
            # Its finaliser would destroy the policy's process group together with the engine.
            self._llm.llm_engine.engine_core._finalizer.detach()
        self._llm.collective_rpc(keep_log_probs_before_truncation)
        self._tokenizer = self._llm.get_tokenizer()
        self._ledger = WeightLedger.of_checkpoint(options.model_path)
        self._forbidden = forbidden_token_ids(self._tokenizer)
        self._ends = end_token_ids(_generation_config(options), self._tokenizer)
        self._awake = True

    def generate(
        self, prompts: Sequence[EncodedPrompt], sampling: SamplingParams, seeds: Sequence[int]
    ) -> list[list[Response]]:
        """See RolloutEngine. Also checks that vLLM expanded every prompt to the ids it was encoded with."""
        self._require_awake()
        check_request(prompts, sampling, seeds, self._options)
        for prompt in prompts:
            prompt.check("rollout")
        outputs = self._llm.generate(
            [vllm_prompt(prompt, self._tokenizer) for prompt in prompts],
            [self._sampling_params(sampling, seed) for seed in seeds],
            use_tqdm=False,
        )
        for prompt, output in zip(prompts, outputs, strict=True):
            check_prompt_ids(prompt, output.prompt_token_ids)
        # vLLM takes a greedy request once only; its responses would all be the same.
        repeats = sampling.n if sampling.greedy else 1
        return [[_response(one) for one in sorted(output.outputs, key=_index)] * repeats for output in outputs]

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See RolloutEngine. Everything vLLM remembers of the old weights (prefixes, features) is dropped."""
        self._require_awake()
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": self._ledger.watch(weights)})
        engine = self._llm.llm_engine
        if not engine.reset_prefix_cache():
            raise RuntimeError("vLLM kept its prefix cache after a weight sync; no request may run during load_weights")
        self._llm.reset_mm_cache()
        engine.reset_encoder_cache()

    def sleep(self) -> None:
        """Give the device memory of weights and cache back; on a CPU this frees nothing."""
        self._require_awake()
        if self._options.on_cpu:
            logger.info("vLLM runs on the CPU: sleeping frees no memory")
        else:
            self._llm.sleep(level=1)
        self._awake = False

    def wake(self) -> None:
        """Take the device memory again; the weights are those from before ``sleep``."""
        if self._llm is None:
            raise RuntimeError("the rollout engine is closed; make a new one")
        if not self._awake and not self._options.on_cpu:
            self._llm.wake_up()
        self._awake = True

    def close(self) -> None:
        """Shut vLLM down. A process group that was there before the engine stays."""
        if self._llm is not None:
            _shut_down(self._llm, keep_group=self._borrowed_group)
        self._llm = None
        self._awake = False
        gc.collect()
        if not self._options.on_cpu:
            torch.accelerator.empty_cache()

    def _require_awake(self) -> None:
        if not self._awake:
            raise RuntimeError("the rollout engine sleeps or is closed; call wake() first")

    def _sampling_params(self, sampling: SamplingParams, seed: int) -> Any:
        from vllm import SamplingParams as VllmSamplingParams

        return VllmSamplingParams(
            n=1 if sampling.greedy else sampling.n,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=max(sampling.top_k, 0),
            max_tokens=sampling.max_tokens,
            ignore_eos=sampling.ignore_eos,
            stop_token_ids=None if sampling.ignore_eos else list(self._ends),
            seed=response_seed(seed),
            logprobs=0,
            logit_bias=dict.fromkeys(self._forbidden, float("-inf")),
            detokenize=False,
        )


def _check_placement(options: EngineOptions) -> None:
    """Refuse what vLLM would place elsewhere than asked, or start as a process of its own."""
    if torch.distributed.is_initialized():
        lacking = [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
        if lacking:
            raise ValueError(f"vLLM inside torch.distributed reads {', '.join(lacking)} from the environment; set them")
        index = int(os.environ["LOCAL_RANK"])
    else:
        index = 0
        if options.tensor_parallel_size > 1:
            raise ValueError(
                f"tensor_parallel_size = {options.tensor_parallel_size} needs the torch.distributed group of the "
                "worker actors, each with an engine of its own; initialise it first or use tensor_parallel_size = 1"
            )
    wanted = torch.device(options.device).index
    if not options.on_cpu and wanted is not None and wanted != index:
        raise ValueError(
            f"device is {options.device!r} but vLLM would use cuda:{index}, the local rank of this process"
        )


def _set_environment(options: EngineOptions) -> None:
    """What vLLM reads from the environment. In-process operation is a must; the rest yields to what is already set."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    defaults = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_HOST_IP": "127.0.0.1",
        # The sampler that log-probs before truncation are taken from is that of this runner.
        "VLLM_USE_V2_MODEL_RUNNER": "0",
    }
    if options.on_cpu:
        defaults |= {
            "VLLM_CPU_KVCACHE_SPACE": str(options.kv_cache_gib),
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def _quieten() -> None:
    """Two warnings repeat at every call or weight sync and are wrong here.

    Threads are told not to be bound, and the modules that "failed to load weights" have none: WeightLedger has made
    sure that every parameter came.
    """
    for name in ("vllm.v1.worker.cpu_worker", "vllm.model_executor.model_loader.reload.layerwise"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _llm_class() -> Any:
    try:
        from vllm import LLM
    except ImportError as error:
        raise ImportError(
            f"rollout engine 'vllm' needs vLLM ({error}): install evr-trainer[gpu], or evr-trainer[cpu] for a machine "
            "without a GPU; or use worker.rollout.name=transformers"
        ) from error
    return LLM


def _llm_arguments(options: EngineOptions) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": str(options.model_path),
        "dtype": options.dtype,
        # Not "dummy": buffers that no weight sync brings would keep dummy values and video features would be wrong.
        "load_format": "auto",
        "trust_remote_code": False,
        "generation_config": "vllm",
        "enforce_eager": options.enforce_eager or options.on_cpu,
        "max_model_len": options.max_model_len,
        "max_num_seqs": options.max_num_seqs,
        "tensor_parallel_size": options.tensor_parallel_size,
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": True,
        "use_tqdm_on_load": False,
        "seed": 0,
    }
    if not options.on_cpu:
        arguments |= {"gpu_memory_utilization": options.gpu_memory_utilization, "enable_sleep_mode": True}
    if torch.distributed.is_initialized():
        arguments["distributed_executor_backend"] = "external_launcher"
    if options.max_num_batched_tokens is not None:
        arguments["max_num_batched_tokens"] = options.max_num_batched_tokens
    if options.enable_chunked_prefill is not None:
        arguments["enable_chunked_prefill"] = options.enable_chunked_prefill
    if options.limit_images > 0:
        arguments["limit_mm_per_prompt"] = {"image": options.limit_images}
    return arguments


def _shut_down(llm: Any, *, keep_group: bool) -> None:
    """vLLM's own shutdown destroys the default process group, also when the policy lives in it."""
    if not keep_group:
        llm.llm_engine.engine_core.shutdown()
        return
    from vllm.distributed import destroy_model_parallel

    llm.llm_engine.model_executor.shutdown()
    destroy_model_parallel()
    gc.unfreeze()


def _generation_config(options: EngineOptions) -> Any:
    from transformers import AutoConfig, GenerationConfig

    if (options.model_path / "generation_config.json").is_file():
        return GenerationConfig.from_pretrained(str(options.model_path), local_files_only=True)
    return AutoConfig.from_pretrained(str(options.model_path), local_files_only=True, trust_remote_code=False)


def _index(output: Any) -> int:
    return int(output.index)


def _response(output: Any) -> Response:
    reason: Literal["stop", "length"] = output.finish_reason
    if reason not in ("stop", "length"):
        raise RuntimeError(f"vLLM ended a response with {reason!r} ({output.stop_reason!r}); expected stop or length")
    token_ids = tuple(output.token_ids)
    log_probs = (step[token].logprob for token, step in zip(token_ids, output.logprobs, strict=True))
    return Response(token_ids, tuple(log_probs), reason)
