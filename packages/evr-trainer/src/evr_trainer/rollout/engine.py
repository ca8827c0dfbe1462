"""What a rollout engine takes and gives, and how one is made by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch

    from evr_video import EncodedPrompt

ENGINE_NAMES = ("transformers", "vllm")
DTYPE_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


@dataclass(frozen=True)
class SamplingParams:
    """How responses are drawn.

    Attributes:
        n: Responses per prompt.
        temperature: Divides the logits; 0 is greedy. Between 0 and 0.01 lies nothing: vLLM would raise it silently.
        top_p: Keeps the smallest set of most likely tokens whose probability reaches it; 1 keeps all.
        top_k: Keeps that many most likely tokens; -1 keeps all.
        max_tokens: Most tokens of a response, the end-of-sequence token included.
        ignore_eos: Whether to go on past end-of-sequence tokens up to ``max_tokens``.
    """

    n: int
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        _require(self.n >= 1, "n", self.n, "at least 1")
        _require(self.max_tokens >= 1, "max_tokens", self.max_tokens, "at least 1")
        drawn = 0.01 <= self.temperature <= 2.0
        _require(drawn or self.greedy, "temperature", self.temperature, "0 (greedy) or within [0.01, 2]")
        _require(0.0 < self.top_p <= 1.0, "top_p", self.top_p, "within (0, 1]; 1 keeps all tokens")
        _require(self.top_k == -1 or self.top_k >= 1, "top_k", self.top_k, "-1 (all tokens) or at least 1")

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature == 0.0

    @property
    def truncated(self) -> bool:
        """Whether unlikely tokens are cut off before sampling."""
        return not self.greedy and (self.top_p < 1.0 or self.top_k != -1)


@dataclass(frozen=True)
class Response:
    """One sampled response of R tokens.

    Attributes:
        token_ids: Sampled tokens; the last one is the end-of-sequence token when ``finish_reason`` is "stop". [R]
        log_probs: Log-probability of each token under the distribution sampled from, before top-p and top-k:
            the log-softmax of (logits with forbidden tokens at minus infinity) / temperature; for greedy decoding at
            temperature 1. [R]
        finish_reason: "stop" at an end-of-sequence token, "length" at the token limit.
    """

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    finish_reason: Literal["stop", "length"]

    def __post_init__(self) -> None:
        if len(self.token_ids) != len(self.log_probs):
            raise ValueError(f"response has {len(self.token_ids)} token ids but {len(self.log_probs)} log-probs")


@dataclass(frozen=True)
class EngineOptions:
    """What an engine is built from; every engine reads what concerns it.

    Attributes:
        model_path: Local folder of a Hugging Face model with its tokenizer and processor.
        device: Torch device, "cpu" or "cuda[:index]".
        dtype: "float32", "bfloat16" or "float16".
        max_model_len: Most tokens of a prompt and its response together.
        max_num_seqs: Most sequences decoded together.
        max_num_batched_tokens: Most tokens of one vLLM step; None leaves it to vLLM.
        gpu_memory_utilization: Share of the device memory that vLLM may take, weights included.
        tensor_parallel_size: Devices that share one vLLM model.
        enforce_eager: Whether vLLM runs without CUDA graphs; always so on a CPU.
        enable_chunked_prefill: Whether vLLM may split a long prompt over steps; None leaves it to vLLM.
        limit_images: Most images of a prompt that vLLM accepts; 0 for no limit of our own.
        kv_cache_gib: Host memory for vLLM's key-value cache on a CPU, in GiB.
    """

    model_path: Path
    device: str = "cpu"
    dtype: str = "float32"
    max_model_len: int = 4096
    max_num_seqs: int = 64
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float = 0.6
    tensor_parallel_size: int = 1
    enforce_eager: bool = True
    enable_chunked_prefill: bool | None = None
    limit_images: int = 0
    kv_cache_gib: int = 1

    def __post_init__(self) -> None:
        names = set(DTYPE_NAMES.values())
        _require(self.model_path.is_dir(), "model_path", self.model_path, "a local folder with a Hugging Face model")
        _require(self.dtype in names, "dtype", self.dtype, f"one of {sorted(names)}")
        _require(self.max_model_len >= 2, "max_model_len", self.max_model_len, "at least 2")
        _require(self.max_num_seqs >= 1, "max_num_seqs", self.max_num_seqs, "at least 1")
        _require(self.tensor_parallel_size >= 1, "tensor_parallel_size", self.tensor_parallel_size, "at least 1")
        _require(
            0.0 < self.gpu_memory_utilization <= 1.0,
            "gpu_memory_utilization",
            self.gpu_memory_utilization,
            "within (0, 1]",
        )

    @property
    def on_cpu(self) -> bool:
        """Whether the engine runs without an accelerator."""
        return self.device.startswith("cpu")


@runtime_checkable
class RolloutEngine(Protocol):
    """A copy of the policy that samples responses."""

    def generate(
        self, prompts: Sequence[EncodedPrompt], sampling: SamplingParams, seeds: Sequence[int]
    ) -> list[list[Response]]:
        """Sample ``sampling.n`` responses for each of B prompts.

        The tokens of a response depend on the weights, its prompt, its prompt's seed and its index among the n, not
        on what else is in the batch (up to floating-point ties).

        Args:
            prompts: Encoded prompts, with or without media. [B]
            sampling: How to draw.
            seeds: One seed per prompt; the n responses derive theirs from it. [B]

        Returns:
            Responses by prompt and sample. [B][n]

        Raises:
            ValueError: Seeds do not match the prompts, or a prompt leaves no room for its response.
            ContractError: A prompt's media are not those it was encoded with.
            RuntimeError: The engine sleeps or is closed.
        """
        ...

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take new weights: every parameter by its transformers name, as a full tensor; streamed, never all at once.

        Raises:
            ValueError: A name is unknown, a shape differs, or parameters are missing.
        """
        ...

    def sleep(self) -> None:
        """Give device memory back until ``wake``. On a CPU nothing is freed."""
        ...

    def wake(self) -> None:
        """Be ready to generate and to take weights again."""
        ...

    def close(self) -> None:
        """Free the model; the engine is of no use afterwards."""
        ...


def make_engine(
    name: str,
    model_path: str | Path,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    max_model_len: int = 4096,
    max_num_seqs: int = 64,
    max_num_batched_tokens: int | None = None,
    gpu_memory_utilization: float = 0.6,
    tensor_parallel_size: int = 1,
    enforce_eager: bool = True,
    enable_chunked_prefill: bool | None = None,
    limit_images: int = 0,
    kv_cache_gib: int = 1,
) -> RolloutEngine:
    """Build the engine ``name`` ("transformers" or "vllm") over the model in ``model_path``.

    Args: those of EngineOptions; ``dtype`` also in the short forms fp32, bf16 and fp16.

    Raises:
        ValueError: An unknown name or a setting out of range.
        ImportError: vLLM is asked for but not installed.
    """
    options = EngineOptions(
        model_path=Path(model_path),
        device=device,
        dtype=DTYPE_NAMES.get(dtype, dtype),
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        gpu_memory_utilization=gpu_memory_utilization,
        tensor_parallel_size=tensor_parallel_size,
        enforce_eager=enforce_eager,
        enable_chunked_prefill=enable_chunked_prefill,
        limit_images=limit_images,
        kv_cache_gib=kv_cache_gib,
    )
    if name == "transformers":
        from evr_trainer.rollout.transformers_engine import TransformersEngine

        return TransformersEngine(options)
    if name == "vllm":
        from evr_trainer.rollout.vllm_engine import VllmEngine

        return VllmEngine(options)
    raise ValueError(f"rollout engine is {name!r}; allowed: {', '.join(ENGINE_NAMES)}")


def check_request(
    prompts: Sequence[EncodedPrompt], sampling: SamplingParams, seeds: Sequence[int], options: EngineOptions
) -> None:
    """Refuse a request that no engine could serve, before any work is done."""
    if len(prompts) != len(seeds):
        raise ValueError(f"got {len(seeds)} seeds for {len(prompts)} prompts; give one seed per prompt")
    for prompt in prompts:
        length = len(prompt.token_ids)
        if length == 0:
            raise ValueError(f"prompt of sample {prompt.sample_id!r} has no tokens")
        if length + sampling.max_tokens > options.max_model_len:
            raise ValueError(
                f"prompt of sample {prompt.sample_id!r} has {length} tokens, with max_tokens = {sampling.max_tokens} "
                f"more than max_model_len = {options.max_model_len}; shorten the prompt (fewer frames or pixels), "
                "lower max_tokens or raise max_model_len"
            )


def _require(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise ValueError(f"{name} is {value!s}; allowed: {allowed}")
