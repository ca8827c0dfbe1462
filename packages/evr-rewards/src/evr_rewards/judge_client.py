"""Ask an OpenAI-compatible chat endpoint: cached by content, retried, limited in parallel requests and in cost."""

from __future__ import annotations

import hashlib
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evr_rewards.result import JudgeError

if TYPE_CHECKING:
    import httpx

_RETRY_STATUS: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_MAX_WAIT_S: Final = 30.0


@dataclass(frozen=True)
class Usage:
    """What a client has used so far.

    Attributes:
        requests: Requests sent, retries included.
        retries: Requests that repeated a failed one.
        cached: Questions answered from the cache.
        failures: Questions that ended without an answer.
        prompt_tokens: As the endpoint reports them.
        completion_tokens: As the endpoint reports them.
        cost: In the currency of the prices given to the client.
    """

    requests: int = 0
    retries: int = 0
    cached: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


class AnswerCache:
    """Answers by the digest of their request, in memory and, with a folder, on disk (one JSON file each)."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self._memory: dict[str, str] = {}
        self._folder = None if folder is None else Path(folder)
        if self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)

    def get(self, digest: str) -> str | None:
        """The answer to a request, None when it is new."""
        if digest in self._memory or self._folder is None:
            return self._memory.get(digest)
        try:
            stored = json.loads((self._folder / f"{digest}.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        answer = stored.get("answer") if isinstance(stored, dict) else None
        return answer if isinstance(answer, str) else None

    def put(self, digest: str, answer: str) -> None:
        """Keep an answer; a reader sees the whole file or none."""
        self._memory[digest] = answer
        if self._folder is None:
            return
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=self._folder, suffix=".tmp", delete=False) as file:
            json.dump({"answer": answer}, file, ensure_ascii=False)
        Path(file.name).replace(self._folder / f"{digest}.json")


@dataclass
class ChatClient:
    """A chat model behind ``{base_url}/chat/completions``. Safe to use from many threads.

    Attributes:
        base_url: For example ``http://127.0.0.1:8000/v1``.
        model: Name of the model at the endpoint.
        api_key_env: Name of the environment variable that holds the key; "" for endpoints without one.
        timeout_s: Limit for one request.
        retries: Repeats after a connection error, a time-out, or status 408, 409, 425, 429, 5xx.
        concurrency: Requests at the same time.
        max_tokens: Longest answer.
        temperature: 0 by default: the same question gets the same verdict.
        cache: Answers of earlier requests.
        prompt_price: Cost of a million prompt tokens.
        completion_price: Cost of a million completion tokens.
        budget: No request is sent once ``usage.cost`` has reached it; None for no limit.
    """

    base_url: str
    model: str
    api_key_env: str = ""
    timeout_s: float = 60.0
    retries: int = 3
    concurrency: int = 8
    max_tokens: int = 512
    temperature: float = 0.0
    cache: AnswerCache = field(default_factory=AnswerCache)
    prompt_price: float = 0.0
    completion_price: float = 0.0
    budget: float | None = None
    usage: Usage = field(default_factory=Usage, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"judge base_url {self.base_url!r} must start with http:// or https://")
        if self.concurrency < 1 or self.retries < 0 or self.timeout_s <= 0:
            raise ValueError(
                f"judge concurrency={self.concurrency}, retries={self.retries}, timeout_s={self.timeout_s}: "
                "they must be >= 1, >= 0 and > 0"
            )
        self._slots = threading.BoundedSemaphore(self.concurrency)

    def ask(self, messages: Sequence[Mapping[str, str]], *, attempt: int = 0) -> str:
        """The model's answer to ``messages``.

        Args:
            messages: Chat messages with "role" and "content".
            attempt: Part of the cache's key: another attempt asks anew.

        Raises:
            JudgeError: no answer after all retries, or the budget is used up.
        """
        body = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
        }
        digest = hashlib.sha256(json.dumps([self.base_url, body, attempt], sort_keys=True).encode()).hexdigest()
        if (known := self.cache.get(digest)) is not None:
            self._count(cached=1)
            return known
        try:
            with self._slots:
                answer = self._request(body)
        except JudgeError:
            self._count(failures=1)
            raise
        self.cache.put(digest, answer)
        return answer

    @cached_property
    def _http(self) -> httpx.Client:
        import httpx

        key = os.environ.get(self.api_key_env, "") if self.api_key_env else ""
        if self.api_key_env and not key:
            raise ValueError(f"judge api_key_env names {self.api_key_env}, which is not set in the environment")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(timeout=self.timeout_s, headers=headers)

    def _request(self, body: Mapping[str, Any]) -> str:
        import httpx

        reason = "no attempt was made"
        for attempt in range(self.retries + 1):
            if self.budget is not None and self.usage.cost >= self.budget:
                raise JudgeError(f"judge budget of {self.budget} is used up ({self.usage.cost:.4f})")
            self._count(requests=1, retries=int(attempt > 0))
            wait_s = min(_MAX_WAIT_S, 0.5 * 2**attempt) * random.uniform(0.5, 1)
            try:
                response = self._http.post(f"{self.base_url.rstrip('/')}/chat/completions", json=body)
            except httpx.TransportError as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                if response.status_code == 200:
                    return self._answer(response)
                reason = f"status {response.status_code}: {response.text[:200]}"
                if response.status_code not in _RETRY_STATUS:
                    break
                wait_s = _retry_after(response) or wait_s
            if attempt < self.retries:
                time.sleep(wait_s)
        raise JudgeError(f"judge {self.model} at {self.base_url} gave no answer: {reason}")

    def _answer(self, response: httpx.Response) -> str:
        try:
            data = response.json()
            content = data["choices"][0]["message"]["content"]
            usage = data.get("usage") or {}
            prompt, completion = int(usage.get("prompt_tokens", 0)), int(usage.get("completion_tokens", 0))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise JudgeError(
                f"judge {self.model} answered with something that is no chat completion: {error!r}"
            ) from error
        if not isinstance(content, str):
            raise JudgeError(f"judge {self.model} answered without text")
        cost = (prompt * self.prompt_price + completion * self.completion_price) / 1e6
        self._count(prompt_tokens=prompt, completion_tokens=completion, cost=cost)
        return content

    def _count(self, **more: float) -> None:
        with self._lock:
            changes: dict[str, Any] = {name: getattr(self.usage, name) + value for name, value in more.items()}
            self.usage = replace(self.usage, **changes)


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return min(_MAX_WAIT_S, max(0.0, float(response.headers.get("retry-after", ""))))
    except ValueError:
        return None
