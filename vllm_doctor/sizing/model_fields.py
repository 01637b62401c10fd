"""Read the fields of a Hugging Face `config.json`: nested text configs, alternative names, and omitted defaults.

Many published files omit fields that have their model type's default value (Gemma 3 omits the number of heads). Those
defaults and the alternative field names are in `model_types.json`, taken from the configuration classes of
transformers 5.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from vllm_doctor.errors import InputError

_MAX_LAYERS = 4096
_MAX_NUMBER = 1 << 40
# The fields that hold the language model of a multimodal model (transformers' get_text_config).
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")


@lru_cache(maxsize=1)
def _types() -> Mapping[str, Mapping[str, Any]]:
    text = (Path(__file__).resolve().parent / "model_types.json").read_text(encoding="utf-8")
    table: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return table


@dataclass(frozen=True)
class Fields:
    """The language model's part of a config.json, read by the usual field names. Values of a wrong type are ignored."""

    language_model: Mapping[str, Any]
    model_type: str

    def get(self, *names: str) -> Any:
        """Return the first of these fields that the file has, else the first with a default for the model type."""
        for name in names:
            for spelling in (self._aliases.get(name, name), name):
                if self.language_model.get(spelling) is not None:
                    return self.language_model[spelling]
        for name in names:
            value = self._defaults.get(self._aliases.get(name, name), self._defaults.get(name))
            if value is not None and name not in self.language_model:  # null means no value, not the default
                return value
        return None

    def number(self, *names: str) -> int | None:
        """Return the field as a non-negative integer (a list: its maximum), or None."""
        value = self.get(*names)
        if isinstance(value, list) and value:
            value = max((one for one in value if isinstance(one, int)), default=None)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MAX_NUMBER:
            return None
        return int(value)

    def require(self, *names: str) -> int:
        """Return the field as `number` does. Raises InputError naming the first field if there is none."""
        value = self.number(*names)
        if value is None:
            raise InputError(f"config.json has no `{names[0]}`")
        return value

    def strings(self, *names: str) -> tuple[str, ...] | None:
        """Return the field as strings, one per layer (a string: its characters), or None."""
        value = self.get(*names)
        if isinstance(value, str):
            value = list(value)
        if isinstance(value, list) and len(value) <= _MAX_LAYERS and all(isinstance(one, str) for one in value):
            return tuple(value)
        return None

    def integers(self, *names: str) -> tuple[int, ...] | None:
        """Return the field as integers, or None."""
        value = self.get(*names)
        if isinstance(value, list) and len(value) <= _MAX_LAYERS and all(isinstance(one, int) for one in value):
            return tuple(value)
        return None

    @property
    def layers(self) -> int:
        """Return the number of hidden layers. Raises InputError if there are none, or more than any model has."""
        count = self.require("num_hidden_layers", "n_layers", "n_layer", "num_layers")
        if not 0 < count <= _MAX_LAYERS:
            raise InputError(f"config.json has an invalid number of layers: {count}")
        return count


    @property
    def _defaults(self) -> Mapping[str, Any]:
        return _types().get(self.model_type, {})

    @property
    def _aliases(self) -> Mapping[str, str]:
        names = self._defaults.get("names", {})
        return names if isinstance(names, Mapping) else {}


def read_fields(document: Mapping[str, Any]) -> Fields:
    """Return the fields of a config.json; of its language model if it describes several models."""
    model_type = document.get("model_type")
    outer = model_type if isinstance(model_type, str) else ""
    for name in _NESTED:
        inner = document.get(name)
        if isinstance(inner, Mapping) and name == "thinker_config":
            return read_fields({**inner, "model_type": inner.get("model_type", outer)})
        if isinstance(inner, Mapping) and inner:
            inner_type = inner.get("model_type")
            default = _types().get(outer, {}).get("text_config", outer)
            return Fields(inner, inner_type if isinstance(inner_type, str) else str(default))
    text = _types().get(outer, {}).get("text_config")
    if isinstance(text, str) and document.get("hidden_size") is None:
        return Fields({}, text)
    return Fields(document, outer)
