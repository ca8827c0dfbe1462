"""The ``worker.rollout`` section: the engine that writes responses, and how it samples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ._base import Count, CountOrOff, Dtype, NonNegativeFloat, PositiveFloat, Section

TopP = Annotated[float, Field(gt=0.0, le=1.0)]
Penalty = Annotated[float, Field(ge=-2.0, le=2.0)]


class ValSamplingConfig(Section):
    """Sampling values that replace those of training in validation; null keeps the value of training."""

    temperature: NonNegativeFloat | None = None
    """Sampling temperature; 0 takes the likeliest token."""
    top_p: TopP | None = None
    """Nucleus sampling."""
    top_k: CountOrOff | None = None
    """Likeliest tokens that sampling may choose from; -1 means all."""
    repetition_penalty: PositiveFloat | None = None
    """Above 1 discourages tokens of the prompt and the response so far."""
    presence_penalty: Penalty | None = None
    """Above 0 discourages tokens that the response already holds."""
    frequency_penalty: Penalty | None = None
    """Above 0 discourages tokens by how often the response holds them."""
    seed: int | None = None
    """Seed of validation responses."""
    n: Count = 1
    """Responses per validation prompt."""


class RolloutConfig(Section):
    """How n responses per prompt are written."""

    name: Literal["vllm", "transformers"] = "vllm"
    """Rollout engine."""
    n: Count = 1
    """Responses per prompt: the size of a group."""
    temperature: NonNegativeFloat = 1.0
    """Sampling temperature."""
    top_p: TopP = 1.0
    """Nucleus sampling: the least set of likeliest tokens with this probability."""
    top_k: CountOrOff = -1
    """Likeliest tokens that sampling may choose from; -1 means all."""
    seed: int = 1
    """Seed of the responses; every request derives its own from it, the step and the prompt."""
    limit_images: Annotated[int, Field(ge=0)] = 0
    """Most images of one prompt; 0 means no limit."""
    dtype: Dtype = "bf16"
    """Type in which the engine computes."""
    gpu_memory_utilization: Annotated[float, Field(gt=0.0, le=1.0)] = 0.6
    """Share of the device's memory that vLLM may take."""
    ignore_eos: bool = False
    """Write on after the end-of-sequence token, up to max_response_length."""
    enforce_eager: bool = False
    """Run vLLM without CUDA graphs."""
    enable_chunked_prefill: bool = False
    """Let vLLM split long prompts over several batches."""
    tensor_parallel_size: Count = 2
    """Devices that share one vLLM engine; the transformers engine always uses one."""
    max_model_len: Count | None = None
    """Longest sequence of the engine; null means max_prompt_length + max_response_length."""
    max_num_batched_tokens: Count = 8192
    """Most tokens that vLLM computes at a time."""
    max_num_seqs: Count = 256
    """Most sequences that the engine writes at a time."""
    val_override_config: ValSamplingConfig = Field(default_factory=ValSamplingConfig)
    """Sampling in validation."""
    enable_mix_policy: bool = False
    """Let the last of the n responses be the record's offline one."""
    mix_policy_accuracy_threshold: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """Use the offline response only for groups whose accuracy is below it; null means always."""
    disable_tqdm: bool | None = None
    """Deprecated and without effect: the trainer shows its own progress."""
    disable_log_stats: bool | None = None
    """Deprecated and without effect: engine statistics are part of the step's metrics."""
