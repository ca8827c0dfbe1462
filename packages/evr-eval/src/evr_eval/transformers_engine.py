"""Generation through ``model.generate`` of transformers, one request per forward pass."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evr_eval._model_files import end_token_ids, engine_fingerprint, resolve_device
from evr_eval.engine import EngineError, Generation, MediaMismatchError, SamplingSettings

if TYPE_CHECKING:
    import torch

    from evr_video import EncodedPrompt

_MAX_SEED = 2**63


class TransformersEngine:
    """A local Hugging Face model.

    Requests are never batched, so a number cannot move with the batch size. Pixels of the next request are prepared
    while the current one generates. Placeholder tokens can never be sampled. The sampling defaults in the model's
    ``generation_config.json`` have no effect, only its end-of-sequence tokens.

    Args:
        model_path: Local folder; nothing is downloaded and no code from it is run.
        device: "auto", "cpu", "cuda" or "cuda:N".
        dtype: "auto" (bfloat16 on CUDA, float32 on CPU), "float32", "bfloat16" or "float16".
    """

    max_concurrency = 2

    def __init__(self, model_path: str | Path, *, device: str = "auto", dtype: str = "auto") -> None:
        import torch
        from transformers import AutoModelForImageTextToText, AutoProcessor, GenerationConfig

        self._device = resolve_device(device)
        self.fingerprint: Mapping[str, str] = engine_fingerprint("transformers", device, dtype)
        local = {"local_files_only": True, "trust_remote_code": False}
        self._processor = AutoProcessor.from_pretrained(model_path, **local)
        model: Any = AutoModelForImageTextToText.from_pretrained(
            model_path, dtype=getattr(torch, self.fingerprint["dtype"]), **local
        )
        self._model = model.to(self._device).eval()
        self._prepare_pool = ThreadPoolExecutor(1, "evr-prepare")
        self._generate_pool = ThreadPoolExecutor(1, "evr-generate")
        self._end_tokens = end_token_ids(Path(model_path), self._processor.tokenizer)
        self._model.generation_config = GenerationConfig()  # whatever is not asked for here is off

    async def generate(self, prompt: EncodedPrompt, sampling: SamplingSettings) -> Generation:
        """The response to one prompt; see ``Engine``."""
        loop = asyncio.get_running_loop()
        inputs = await loop.run_in_executor(self._prepare_pool, self._inputs, prompt)
        return await loop.run_in_executor(self._generate_pool, self._respond, prompt, inputs, sampling)

    def close(self) -> None:
        """Stops the threads and lets the weights go."""
        self._prepare_pool.shutdown(cancel_futures=True)
        self._generate_pool.shutdown(cancel_futures=True)
        self._model = None

    def _inputs(self, prompt: EncodedPrompt) -> dict[str, torch.Tensor]:
        import numpy as np
        import torch

        from evr_video import visual_inputs

        try:
            prompt.check("evaluation")
            visual = visual_inputs(prompt.media, self._processor)
        except ValueError as error:  # contract broken, cache entry damaged, or another grid than planned
            raise MediaMismatchError(f"{type(error).__name__}: {error}") from error
        except (OSError, RuntimeError) as error:
            raise EngineError(f"{type(error).__name__}: {error}") from error
        token_ids = torch.from_numpy(np.asarray(prompt.token_ids, dtype=np.int64))[None]  # [1, P]
        types = torch.from_numpy(np.asarray(prompt.token_types(), dtype=np.int64))[None]
        mask = torch.ones_like(token_ids)
        return {"input_ids": token_ids, "attention_mask": mask, "mm_token_type_ids": types, **visual}

    def _respond(
        self, prompt: EncodedPrompt, inputs: dict[str, torch.Tensor], sampling: SamplingSettings
    ) -> Generation:
        import torch

        num_prompt = inputs["input_ids"].shape[1]
        settings = self._generation_config(prompt, sampling, min(sampling.max_tokens, self._room(num_prompt)))
        devices = [self._device] if self._device.startswith("cuda") else []
        try:
            with torch.inference_mode(), torch.random.fork_rng(devices=devices):
                torch.manual_seed(_request_seed(prompt.sample_id, sampling.seed))
                output = self._model.generate(
                    **{name: value.to(self._device) for name, value in inputs.items()},
                    generation_config=settings,
                )
        except (RuntimeError, ValueError, IndexError) as error:  # out of memory, bad logits, shapes: this request only
            raise EngineError(f"{type(error).__name__}: {error}") from error
        token_ids = output[0, num_prompt:].tolist()
        finished = bool(token_ids) and token_ids[-1] in self._end_tokens
        text = self._processor.tokenizer.decode(token_ids, skip_special_tokens=True)
        return Generation(text, tuple(token_ids), "stop" if finished else "length")

    def _generation_config(self, prompt: EncodedPrompt, sampling: SamplingSettings, max_tokens: int) -> Any:
        from transformers import GenerationConfig

        pad = self._processor.tokenizer.pad_token_id
        return GenerationConfig(
            max_new_tokens=max_tokens,
            eos_token_id=list(self._end_tokens),
            pad_token_id=self._end_tokens[0] if pad is None else pad,
            suppress_tokens=[prompt.visual_ids.image, prompt.visual_ids.video],
            **_draw_arguments(sampling),
        )

    def _room(self, num_prompt: int) -> int:
        """Tokens that fit behind the prompt; a response that is cut off there is reported as "length"."""
        limit = int(self._model.config.get_text_config().max_position_embeddings)
        if num_prompt >= limit:
            raise EngineError(
                f"a prompt of {num_prompt} tokens leaves no room in the model's {limit} positions; "
                "use fewer frames or fewer pixels"
            )
        return limit - num_prompt


def _draw_arguments(sampling: SamplingSettings) -> dict[str, Any]:
    if sampling.temperature == 0:
        return {"do_sample": False}
    return {
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": max(sampling.top_k, 0),  # transformers writes "all" as 0
    }


def _request_seed(sample_id: str, seed: int) -> int:
    digest = hashlib.sha256(f"{seed}:{sample_id}".encode()).digest()
    return int.from_bytes(digest[:8], "little") % _MAX_SEED
