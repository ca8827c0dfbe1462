"""What the pipeline asks of whatever generates responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from evr_video import EncodedPrompt


@dataclass(frozen=True)
class SamplingSettings:
    """How a response is drawn.

    Attributes:
        max_tokens: Most tokens of a response.
        temperature: 0 is greedy; then top_p, top_k and seed have no effect.
        top_p: Nucleus; 1 keeps everything.
        top_k: Most likely tokens kept; -1 keeps all.
        seed: Mixed with the sample's id, so that a response depends on neither order nor neighbours.
    """

    max_tokens: int = 1024
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = -1
    seed: int = 0


@dataclass(frozen=True)
class Generation:
    """A response.

    Attributes:
        text: Without special tokens.
        token_ids: As sampled, with the end token when there was one.
        finish_reason: "stop" or "length".
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str


class EngineError(Exception):
    """One request failed; the run goes on and the row says why."""


class MediaMismatchError(Exception):
    """The frames that reached the engine are not those the prompt was built for."""


class Engine(Protocol):
    """Generates responses for encoded prompts.

    The pipeline keeps up to ``max_concurrency`` calls of ``generate`` in flight on one event loop. The same prompt and
    settings give the same response whatever else is in flight.

    Attributes:
        max_concurrency: Calls in flight at most.
        fingerprint: What of the engine can move a response (its name, the dtype); part of the configuration hash.
    """

    max_concurrency: int
    fingerprint: Mapping[str, str]

    async def generate(self, prompt: EncodedPrompt, sampling: SamplingSettings) -> Generation:
        """The response to one prompt.

        Raises:
            EngineError: This request cannot be answered.
            MediaMismatchError: Prompt and frames disagree.
        """
        ...

    def close(self) -> None:
        """Frees threads and device memory."""
        ...
