"""A key-value cache with room to grow, made from the rows of a filled one.

Legend: B rows, H key-value heads, L cached positions, D head size.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer


class _RoomyLayer(DynamicLayer):
    """Writes new positions into buffers of fixed size instead of copying the whole cache for every token."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, rows: torch.Tensor, room: int) -> None:
        super().__init__()
        self.dtype, self.device = keys.dtype, keys.device
        self._keys = _with_room(keys, rows, room)
        self._values = _with_room(values, rows, room)
        self._length = keys.shape[-2]
        self._show()
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start, self._length = self._length, self._length + key_states.shape[-2]
        self._keys[:, :, start : self._length] = key_states
        self._values[:, :, start : self._length] = value_states
        return self._show()

    def _show(self) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = self._keys[:, :, : self._length], self._values[:, :, : self._length]
        self.keys, self.values = keys, values
        return keys, values


def take_rows(cache: Cache, rows: torch.Tensor, room: int) -> Cache:
    """A new cache holding ``rows`` of ``cache``, with room for ``room`` more positions.

    Args:
        cache: Filled cache of B rows.
        rows: Row numbers, repeats allowed. [B']
        room: Positions that can still be written.

    Raises:
        ValueError: The model has layers whose state is not plain keys and values.
    """
    return Cache(layers=[_RoomyLayer(*_plain_states(layer), rows, room) for layer in cache.layers])


def _plain_states(layer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    if not isinstance(layer, DynamicLayer) or layer.is_sliding or layer.keys is None or layer.values is None:
        raise ValueError(f"the transformers engine cannot repeat cache layers of kind {type(layer).__name__}; use vllm")
    return layer.keys, layer.values


def _with_room(states: torch.Tensor, rows: torch.Tensor, room: int) -> torch.Tensor:
    _, heads, length, size = states.shape
    buffer = states.new_empty(len(rows), heads, length + room, size)
    buffer[:, :, :length] = states.index_select(0, rows)
    return buffer
