"""From one placeholder per medium to the text that the model is given: one placeholder per visual token."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evr_core.geometry import ModelGeometry
from evr_core.image import ImagePlan
from evr_core.video import VideoPlan

IMAGE_TOKEN = "<|image_pad|>"
VIDEO_TOKEN = "<|video_pad|>"
VISION_START = "<|vision_start|>"
VISION_END = "<|vision_end|>"
VISION_TOKENS = (IMAGE_TOKEN, VIDEO_TOKEN, VISION_START, VISION_END)

_PLACEHOLDER = re.compile(f"{re.escape(IMAGE_TOKEN)}|{re.escape(VIDEO_TOKEN)}")


def expand_placeholders(
    text: str, images: Sequence[ImagePlan], videos: Sequence[VideoPlan], geometry: ModelGeometry
) -> str:
    """Return the chat text with every visual token written out, as the processors of transformers do.

    Args:
        text: Output of the chat template: one ``<|image_pad|>`` per image and one ``<|video_pad|>`` per video.
        images: Plans of the images, in the order of their placeholders.
        videos: Plans of the videos, in the order of their placeholders.
        geometry: Patch sizes of the model. For families with timestamps each temporal patch is written as its
            ``<t seconds>`` text and a vision segment of its own.

    Raises:
        ValueError: The number of placeholders differs from the number of plans.
    """
    for token, plans in ((IMAGE_TOKEN, images), (VIDEO_TOKEN, videos)):
        found = text.count(token)
        if found != len(plans):
            raise ValueError(
                f"the chat text holds {found} {token} but there are {len(plans)} such media; "
                "build the message with prompt_parts and apply the chat template once, without expanding"
            )
    image_texts = iter([IMAGE_TOKEN * plan.visual_tokens for plan in images])
    video_texts = iter([_video_text(plan, geometry) for plan in videos])
    return _PLACEHOLDER.sub(lambda match: next(image_texts if match[0] == IMAGE_TOKEN else video_texts), text)


def _video_text(plan: VideoPlan, geometry: ModelGeometry) -> str:
    if not geometry.timestamped_frames:
        return VIDEO_TOKEN * plan.visual_tokens
    patches = plan.grid_thw[0]
    if len(plan.timestamp_texts) != patches:
        raise ValueError(
            f"the video plan has {len(plan.timestamp_texts)} timestamps for {patches} temporal patches; "
            "plan the video with the geometry of this model"
        )
    segment = VISION_START + VIDEO_TOKEN * (plan.visual_tokens // patches) + VISION_END
    return "".join(stamp + segment for stamp in plan.timestamp_texts)
