"""The score stage: a response, or the failure to get one, becomes a row."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evr_rewards
from evr_eval._digest import token_digest
from evr_eval._items import Item, media_name
from evr_eval._pipeline import Failed, Generated
from evr_eval.rows import MediaUse, Outcome, ResultRow, Timing

if TYPE_CHECKING:
    from evr_video import EncodedPrompt, MediaHandle

_OUTCOMES = {
    evr_rewards.Outcome.CORRECT: Outcome.CORRECT,
    evr_rewards.Outcome.PARTIAL: Outcome.PARTIAL,
    evr_rewards.Outcome.WRONG: Outcome.WRONG,
    evr_rewards.Outcome.UNPARSED: Outcome.UNPARSED,
    evr_rewards.Outcome.ERROR: Outcome.JUDGE_ERROR,
    evr_rewards.Outcome.TIMEOUT: Outcome.JUDGE_ERROR,
}


class RowBuilder:
    """Makes rows of one run; safe to call from several threads."""

    def __init__(self, *, config_hash: str, benchmark: str, media_dir: Path) -> None:
        self._config_hash = config_hash
        self._benchmark = benchmark
        self._media_dir = media_dir

    def __call__(self, result: Generated | Failed) -> ResultRow:
        return self._failed(result) if isinstance(result, Failed) else self._scored(result)

    def _failed(self, result: Failed) -> ResultRow:
        return self._row(
            result.item,
            result.prompt,
            outcome=result.outcome,
            score=0.0,
            lenient_score=0.0,
            detail=result.detail.replace(f"{self._media_dir}/", ""),
            timing=Timing(load_s=result.load_s, generate_s=result.generate_s),
        )

    def _scored(self, result: Generated) -> ResultRow:
        start = time.perf_counter()
        item, generation = result.loaded.item, result.generation
        cut_off = generation.finish_reason == "length"
        reward = evr_rewards.score(generation.text, item.sample, truncated=cut_off)
        outcome, lenient = _OUTCOMES[reward.outcome], reward.accuracy
        if cut_off and outcome is Outcome.UNPARSED:
            outcome, lenient = Outcome.TRUNCATED, evr_rewards.score(generation.text, item.sample).accuracy
        return self._row(
            item,
            result.loaded.prompt,
            outcome=outcome,
            score=reward.accuracy,
            lenient_score=lenient,
            format=reward.format,
            detail=str(reward.detail.get("error", "")),
            scoring=_jsonable(reward.detail),
            response=generation.text,
            extracted=reward.extracted,
            finish_reason=generation.finish_reason,
            output_tokens=len(generation.token_ids),
            timing=Timing(result.loaded.load_s, result.generate_s, time.perf_counter() - start),
        )

    def _row(self, item: Item, prompt: EncodedPrompt | None, **fields: object) -> ResultRow:
        media = tuple(self._media_use(handle) for handle in prompt.media) if prompt is not None else ()
        build: Callable[..., ResultRow] = ResultRow
        return build(
            sample_id=item.sample_id,
            config_hash=self._config_hash,
            record_digest=item.record_digest,
            benchmark=self._benchmark,
            problem_type=item.sample.problem_type.value,
            cluster=item.cluster,
            groups=item.groups,
            answer=item.sample.answer,
            prompt_hash=token_digest(prompt.token_ids) if prompt is not None else "",
            prompt_tokens=len(prompt.token_ids) if prompt is not None else 0,
            visual_tokens=sum(use.visual_tokens for use in media),
            media=media,
            **fields,
        )

    def _media_use(self, handle: MediaHandle) -> MediaUse:
        plan = handle.plan
        return MediaUse(
            path=media_name(Path(handle.source), self._media_dir),
            kind=handle.kind,
            visual_tokens=plan.visual_tokens,
            height=plan.height,
            width=plan.width,
            frame_indices=tuple(getattr(plan, "frame_indices", ())),
            timestamps_s=tuple(getattr(plan, "timestamps_s", ())),
            digest=handle.digest,
        )


def _jsonable(value: Any) -> Any:
    """The value with everything that JSON cannot hold written as text."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(entry) for entry in value]
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
