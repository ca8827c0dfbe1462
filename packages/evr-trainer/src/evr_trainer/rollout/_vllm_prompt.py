"""An encoded prompt in the form vLLM takes, and the check that vLLM understood it the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evr_video import PROCESSOR_KWARGS, ContractError

if TYPE_CHECKING:
    from evr_video import EncodedPrompt


def vllm_prompt(prompt: EncodedPrompt, tokenizer: Any) -> dict[str, Any]:
    """Token ids with one placeholder per medium, the frames, and the switches that keep vLLM from changing them.

    vLLM expands the placeholders itself; ``check_prompt_ids`` compares the outcome.
    """
    request: dict[str, Any] = {"prompt_token_ids": tokenizer.encode(prompt.text, add_special_tokens=False)}
    if not prompt.media:
        return request
    data: dict[str, list[Any]] = {}
    uuids: dict[str, list[str]] = {}
    for handle in prompt.media:
        clip = handle.open()
        data.setdefault(handle.kind, []).append(clip.for_vllm())
        uuids.setdefault(handle.kind, []).append(clip.uuid)
    return {
        **request,
        "multi_modal_data": data,
        "multi_modal_uuids": uuids,
        "mm_processor_kwargs": dict(PROCESSOR_KWARGS),
    }


def check_prompt_ids(prompt: EncodedPrompt, found: Sequence[int]) -> None:
    """Compare the prompt that vLLM ran with the one that training will see.

    Raises:
        ContractError: They differ.
    """
    expected = prompt.token_ids.tolist()
    if list(found) == expected:
        return
    first = next((i for i, pair in enumerate(zip(expected, found, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(expected), len(found)) if first is None else first
    raise ContractError(
        prompt.sample_id,
        "rollout",
        f"prompt ids of vLLM from token {at} on",
        f"{expected[at : at + 8]} of {len(expected)} tokens",
        f"{list(found[at : at + 8])} of {len(found)} tokens",
    )
