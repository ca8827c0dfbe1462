"""What a training step needs in memory, from sizes alone: formulas, not measurements.

Symbols: P prompt tokens (visual ones included), R response tokens, n responses per prompt, B prompts per step,
W devices, b bytes per value, p parameters, L layers, T tokens of a micro-batch, h, f and V the widths of decoder,
feed-forward part and vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from evr_core.geometry import ModelGeometry
from evr_core.image import ImagePlan
from evr_core.model_shape import ModelShape
from evr_core.video import VideoPlan

_HANDLE_BYTES = 2048
_FLOAT_BYTES = 4
_ID_BYTES = 4


@dataclass(frozen=True)
class StepShape:
    """The load of one training step.

    Attributes:
        prompts: Prompts per step.
        responses_per_prompt: Responses sampled for each prompt.
        prompt_tokens: Tokens of a prompt, visual ones included.
        response_tokens: Tokens of a response.
        micro_batch_tokens: Most tokens in one forward pass of the update.
        devices: Devices that share parameters and prompts.
        value_bytes: Bytes per parameter and activation (2 for bfloat16).
        concurrent_sequences: Responses that one device generates at a time; all of its share when None.
    """

    prompts: int
    responses_per_prompt: int
    prompt_tokens: int
    response_tokens: int
    micro_batch_tokens: int
    devices: int = 1
    value_bytes: int = 2
    concurrent_sequences: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value < 1:
                raise ValueError(f"StepShape.{field.name} is {value}; it must be at least 1")


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes, by what holds them.

    Attributes:
        frames_per_clip: uint8 frames of one clip: ``frames * 3 * height * width``.
        host_frames: Frames of all prompts of a step, mapped once each, however many responses: ``B * frames``.
        pixel_values_per_clip: float32 patches that the vision tower takes, made per micro-batch:
            ``grid patches * 3 * temporal_patch_size * patch_size² * 4``.
        object_store: What crosses process borders in a step: ids and log-probs (old, reference, advantage) of every
            response, and a handle per prompt, never frames: ``B * (4P + 2048) + B * n * R * (4 + 3 * 4)``.
        object_store_with_frames: The same if frames went along with each response: ``object_store + B * n * frames``.
        parameters: Sharded parameters on one device: ``p * b / W``.
        optimizer: Sharded float32 gradient and two float32 moments on one device: ``p * 12 / W``.
        kv_cache: Keys and values on one device while it generates, prompts shared by their responses:
            ``2 * attention layers * kv heads * head width * b * (prompts at a time * P + sequences at a time * R)``.
        activations: One micro-batch with gradient checkpointing: the inputs of all layers ``L * T * h * b``, and the
            inner values of the one layer that is being redone, with q and k the widths of queries and keys:
            ``T * (4h + 4q + 4k + 4f) * b``, and ``T * (2h + q + k) * 4`` for the float32 copies inside its norms.
        logits: float32 logits and their gradient where log-probs are taken, at most over all tokens:
            ``min(T, n * R) * V * 4 * 2``.
    """

    frames_per_clip: int
    host_frames: int
    pixel_values_per_clip: int
    object_store: int
    object_store_with_frames: int
    parameters: int
    optimizer: int
    kv_cache: int
    activations: int
    logits: int

    @property
    def device_rollout(self) -> int:
        """Bytes on one device while generating: unsharded weights are the engine's and not counted here."""
        return self.parameters + self.kv_cache

    @property
    def device_update(self) -> int:
        """Bytes on one device at the peak of the update."""
        return self.parameters + self.optimizer + self.activations + self.logits + self.pixel_values_per_clip


def estimate_memory(
    model: ModelShape, step: StepShape, geometry: ModelGeometry, *, media: VideoPlan | ImagePlan | None = None
) -> MemoryEstimate:
    """Estimate the memory of a step; the formulas are those of ``MemoryEstimate``'s fields.

    Args:
        model: Sizes of the model (``model_shape``).
        step: Load of the step.
        geometry: Patch sizes of the model.
        media: Plan of the clip or image that each prompt holds.

    Raises:
        ValueError: The media's visual tokens leave no room for text in ``prompt_tokens``.
    """
    if media is not None and media.visual_tokens >= step.prompt_tokens:
        raise ValueError(
            f"{media.visual_tokens} visual tokens leave no room for text in a prompt of {step.prompt_tokens} tokens; "
            "lower the pixels per frame, take fewer frames, or allow a longer prompt"
        )
    frames = _frame_bytes(media)
    responses = step.prompts * step.responses_per_prompt
    store = step.prompts * (_ID_BYTES * step.prompt_tokens + _HANDLE_BYTES)
    store += responses * step.response_tokens * (_ID_BYTES + 3 * _FLOAT_BYTES)
    return MemoryEstimate(
        frames_per_clip=frames,
        host_frames=step.prompts * frames,
        pixel_values_per_clip=_pixel_value_bytes(media, geometry),
        object_store=store,
        object_store_with_frames=store + responses * frames,
        parameters=model.parameters * step.value_bytes // step.devices,
        optimizer=model.parameters * 3 * _FLOAT_BYTES // step.devices,
        kv_cache=kv_bytes_per_token(model, step.value_bytes) * _cached_tokens(step),
        activations=_activation_bytes(model, step),
        logits=_logit_bytes(model, step),
    )


def kv_bytes_per_token(model: ModelShape, value_bytes: int = 2) -> int:
    """Bytes of keys and values that one token keeps: ``2 * attention layers * kv heads * head width * bytes``."""
    return 2 * model.attention_layers * model.kv_heads * model.head_dim * value_bytes


def _frame_bytes(media: VideoPlan | ImagePlan | None) -> int:
    if media is None:
        return 0
    frames = media.num_frames if isinstance(media, VideoPlan) else 1
    return frames * 3 * media.height * media.width


def _pixel_value_bytes(media: VideoPlan | ImagePlan | None, geometry: ModelGeometry) -> int:
    if media is None:
        return 0
    t, h, w = media.grid_thw
    return t * h * w * 3 * geometry.temporal_patch_size * geometry.patch_size**2 * _FLOAT_BYTES


def _cached_tokens(step: StepShape) -> int:
    share = -(-step.prompts * step.responses_per_prompt // step.devices)
    sequences = min(step.concurrent_sequences or share, share)
    prompts = -(-sequences // step.responses_per_prompt)
    return prompts * step.prompt_tokens + sequences * step.response_tokens


def _activation_bytes(model: ModelShape, step: StepShape) -> int:
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    inner = 4 * (model.hidden_size + queries + keys + model.ffn_size) * step.value_bytes
    norms = (2 * model.hidden_size + queries + keys) * _FLOAT_BYTES
    inputs = model.layers * model.hidden_size * step.value_bytes
    return step.micro_batch_tokens * (inputs + inner + norms)


def _logit_bytes(model: ModelShape, step: StepShape) -> int:
    scored = min(step.micro_batch_tokens, step.responses_per_prompt * step.response_tokens)
    return scored * model.vocab_size * _FLOAT_BYTES * 2
