"""Rollout with transformers alone: slower than vLLM on a GPU, exact, and quick for small models on a CPU.

Legend: B prompts, S sequences (responses), P padded prompt length, V vocabulary.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.cache_utils import Cache, DynamicCache

from evr_trainer.rollout.engine import EngineOptions, Response, SamplingParams, check_request
from evr_trainer.rollout.kv_cache import take_rows
from evr_trainer.rollout.sampling import next_tokens, uniforms
from evr_trainer.rollout.tokens import end_token_ids, forbidden_token_ids
from evr_trainer.rollout.weights import WeightLedger
from evr_video import visual_inputs

if TYPE_CHECKING:
    from evr_video import EncodedPrompt

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Prefill:
    """What decoding needs of B prompts that were run once."""

    cache: Cache
    logits: torch.Tensor  # [B, V] of the last prompt token
    mask: torch.Tensor  # [B, P] 1 where a token is, 0 on the left where padding is
    next_positions: torch.Tensor  # [B] position of the first response token, the same on all three axes


class TransformersEngine:
    """Owns a full copy of the model; prompts are run once, their cache is repeated, all responses decode together."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._device = torch.device(options.device)
        path = str(options.model_path)
        self._processor = AutoProcessor.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        model: Any = AutoModelForImageTextToText.from_pretrained(
            path,
            dtype=getattr(torch, options.dtype),
            attn_implementation="sdpa",
            local_files_only=True,
            trust_remote_code=False,
        )
        self._model: Any = model.to(self._device).eval().requires_grad_(False)
        tokenizer = self._processor.tokenizer
        self._forbidden = forbidden_token_ids(tokenizer)
        self._ends = torch.tensor(end_token_ids(self._model.generation_config, tokenizer), device=self._device)
        self._awake = True

    @torch.inference_mode()
    def generate(
        self, prompts: Sequence[EncodedPrompt], sampling: SamplingParams, seeds: Sequence[int]
    ) -> list[list[Response]]:
        """See RolloutEngine. Prompts of similar length are run together, ``max_num_seqs`` responses at a time."""
        self._require_awake()
        check_request(prompts, sampling, seeds, self._options)
        responses: list[list[Response]] = [[] for _ in prompts]
        for chunk in self._chunks(prompts, sampling.n):
            prefill = self._prefill([prompts[i] for i in chunk])
            pairs = [(row, sample) for row in range(len(chunk)) for sample in range(sampling.n)]
            for start in range(0, len(pairs), self._options.max_num_seqs):
                part = pairs[start : start + self._options.max_num_seqs]
                numbers = np.stack([uniforms(seeds[chunk[row]], k, sampling.max_tokens) for row, k in part])
                decoded = self._decode(prefill, [row for row, _ in part], numbers, sampling)
                for (row, _), response in zip(part, decoded, strict=True):
                    responses[chunk[row]].append(response)
        return responses

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """See RolloutEngine."""
        self._require_awake()
        parameters = dict(self._model.named_parameters(remove_duplicate=False))
        ledger = WeightLedger.of(self._model)
        with torch.no_grad():
            for name, tensor in ledger.watch(weights):
                parameters[name].copy_(tensor)

    def sleep(self) -> None:
        """Move the weights to host memory; on a CPU this frees nothing."""
        if self._device.type == "cpu":
            logger.info("the transformers engine runs on the CPU: sleeping frees no memory")
        else:
            self._model.to("cpu")
            torch.accelerator.empty_cache()
        self._awake = False

    def wake(self) -> None:
        """Move the weights back to the device."""
        if self._model is None:
            raise RuntimeError("the rollout engine is closed; make a new one")
        self._model.to(self._device)
        self._awake = True

    def close(self) -> None:
        """Drop the model."""
        self._model = None
        self._awake = False

    def _require_awake(self) -> None:
        if not self._awake:
            raise RuntimeError("the rollout engine sleeps or is closed; call wake() first")

    def _chunks(self, prompts: Sequence[EncodedPrompt], n: int) -> Iterator[list[int]]:
        """Prompt numbers of one prefill each, longest first so that neighbours need little padding."""
        order = sorted(range(len(prompts)), key=lambda i: -len(prompts[i].token_ids))
        size = max(1, self._options.max_num_seqs // n)
        return (order[start : start + size] for start in range(0, len(order), size))

    def _prefill(self, prompts: Sequence[EncodedPrompt]) -> _Prefill:
        length = max(len(prompt.token_ids) for prompt in prompts)
        pad = self._processor.tokenizer.pad_token_id or 0
        ids = np.full((len(prompts), length), pad, np.int64)
        mask = np.zeros((len(prompts), length), np.int64)
        types = np.zeros((len(prompts), length), np.int32)
        positions = np.zeros((3, len(prompts), length), np.int64)
        for row, prompt in enumerate(prompts):
            start = length - len(prompt.token_ids)
            ids[row, start:], mask[row, start:], types[row, start:] = prompt.token_ids, 1, prompt.token_types()
            positions[:, row, start:] = prompt.positions()
            prompt.check("rollout", positions=positions[:, row, start:])
        attended = self._to_device(mask)
        handles = [handle for prompt in prompts for handle in prompt.media]
        media = visual_inputs(handles, self._processor) if handles else {}
        output = self._model(
            input_ids=self._to_device(ids),
            attention_mask=attended,
            position_ids=self._to_device(positions),
            mm_token_type_ids=self._to_device(types),
            past_key_values=DynamicCache(config=self._model.config),
            use_cache=True,
            logits_to_keep=1,
            **{name: tensor.to(self._device) for name, tensor in media.items()},
        )
        following = positions.max(axis=(0, 2)) + 1
        return _Prefill(output.past_key_values, output.logits[:, -1], attended, self._to_device(following))

    def _decode(
        self, prefill: _Prefill, rows: list[int], numbers: np.ndarray, sampling: SamplingParams
    ) -> list[Response]:
        """Decode one response per entry of ``rows``; ``numbers`` [S, max_tokens] are their random numbers."""
        picked = torch.tensor(rows, device=self._device)
        batch = _Batch(prefill, picked, sampling.max_tokens)
        record = _Record(len(rows), sampling.max_tokens, self._device)
        draws = torch.from_numpy(numbers).to(self._device)
        for step in range(sampling.max_tokens):
            tokens, log_probs = next_tokens(batch.logits, draws[batch.alive, step], sampling, self._forbidden)
            ended = torch.isin(tokens, self._ends) & (not sampling.ignore_eos)
            record.write(batch.alive, step, tokens, log_probs, ended)
            going = ~record.ended[batch.alive]
            remaining = int(going.sum())
            if remaining == 0 or step + 1 == sampling.max_tokens:
                break
            if remaining <= len(going) // 2:
                batch.keep(going)
                tokens = tokens[going]
            batch.advance(self._model, tokens)
        return record.responses()

    def _to_device(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device)


class _Batch:
    """The sequences that are decoded now; those that ended stay until half of them have."""

    def __init__(self, prefill: _Prefill, rows: torch.Tensor, max_tokens: int) -> None:
        self.alive = torch.arange(len(rows), device=rows.device)  # [S] numbers of the sequences
        self.logits = prefill.logits[rows]  # [S, V]
        self._room = max_tokens - 1
        self._cache = take_rows(prefill.cache, rows, self._room)
        self._length = prefill.mask.shape[1]
        self._mask = torch.nn.functional.pad(prefill.mask[rows], (0, self._room), value=1)
        self._positions = prefill.next_positions[rows]

    def keep(self, going: torch.Tensor) -> None:
        """Drop the sequences whose entry in ``going`` [S] is false."""
        rows = going.nonzero()[:, 0]
        self._cache = take_rows(self._cache, rows, self._room)
        self.alive, self._mask, self._positions = self.alive[rows], self._mask[rows], self._positions[rows]

    def advance(self, model: Any, tokens: torch.Tensor) -> None:
        """Feed one token per sequence and keep the logits that follow it."""
        self._length, self._room = self._length + 1, self._room - 1
        output = model(
            input_ids=tokens[:, None],
            attention_mask=self._mask[:, : self._length],
            position_ids=self._positions[None, :, None].expand(3, -1, 1),
            past_key_values=self._cache,
            use_cache=True,
        )
        self.logits = output.logits[:, -1]
        self._positions = self._positions + 1


class _Record:
    """What all S sequences have produced so far."""

    def __init__(self, count: int, max_tokens: int, device: torch.device) -> None:
        self.ended = torch.zeros(count, dtype=torch.bool, device=device)
        self._lengths = torch.zeros(count, dtype=torch.int64, device=device)
        self._tokens = torch.zeros(count, max_tokens, dtype=torch.int64, device=device)
        self._log_probs = torch.zeros(count, max_tokens, dtype=torch.float32, device=device)

    def write(
        self, alive: torch.Tensor, step: int, tokens: torch.Tensor, log_probs: torch.Tensor, ended: torch.Tensor
    ) -> None:
        """Append to those of ``alive`` [S'] that had not ended before this step."""
        fresh = ~self.ended[alive]
        rows = alive[fresh]
        self._tokens[rows, step] = tokens[fresh]
        self._log_probs[rows, step] = log_probs[fresh]
        self._lengths[rows] += 1
        self.ended[rows] = ended[fresh]

    def responses(self) -> list[Response]:
        tokens, log_probs = self._tokens.tolist(), self._log_probs.tolist()
        return [
            Response(tuple(tokens[i][:length]), tuple(log_probs[i][:length]), "stop" if ended else "length")
            for i, (length, ended) in enumerate(zip(self._lengths.tolist(), self.ended.tolist(), strict=True))
        ]
