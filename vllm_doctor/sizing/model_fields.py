"""The fields of a Hugging Face `config.json`: nested text configs, other names, and what a short file leaves out.

Many published files leave out what is the default of their model type (Gemma 3 leaves out the heads). Those defaults
and the names other than the usual ones are data, `model_types.json`, from the configuration classes of transformers 5.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from vllm_doctor.errors import InputError

_MOST_LAYERS = 4096
_MOST = 1 << 40
# Where the language model of a multimodal one stands (transformers' get_text_config).
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")


@lru_cache(maxsize=1)
def _types() -> Mapping[str, Mapping[str, Any]]:
    text = (Path(__file__).resolve().parent / "model_types.json").read_text(encoding="utf-8")
    table: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return table


@dataclass(frozen=True)
class Fields:
    """The language model's part of a config.json, read by the usual names. Values of a wrong type count as absent."""

    own: Mapping[str, Any]
    whole: Mapping[str, Any]
    model_type: str

    def get(self, *names: str) -> Any:
        """The first of these that the file gives, else the first that the model type has a default for."""
        for name in names:
            for spelling in (self._usual.get(name, name), name):
                if self.own.get(spelling) is not None:
                    return self.own[spelling]
        for name in names:
            value = self._defaults.get(self._usual.get(name, name), self._defaults.get(name))
            if value is not None and name not in self.own:  # null in the file means none, not the default
                return value
        return None

    def number(self, *names: str) -> int | None:
        """`get` as a whole number from 0."""
        value = self.get(*names)
        if isinstance(value, list) and value:
            value = max((one for one in value if isinstance(one, int)), default=None)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST:
            return None
        return int(value)

    def need(self, *names: str) -> int:
        """`number`, or InputError naming the first."""
        value = self.number(*names)
        if value is None:
            raise InputError(f"config.json says nothing of `{names[0]}`")
        return value

    def words(self, *names: str) -> tuple[str, ...] | None:
        """`get` as a list of words, one a layer (a text counts as its letters); None when it is no such list."""
        value = self.get(*names)
        if isinstance(value, str):
            value = list(value)
        if isinstance(value, list) and len(value) <= _MOST_LAYERS and all(isinstance(one, str) for one in value):
            return tuple(value)
        return None

    def numbers(self, *names: str) -> tuple[int, ...] | None:
        """`get` as a list of whole numbers, or None."""
        value = self.get(*names)
        if isinstance(value, list) and len(value) <= _MOST_LAYERS and all(isinstance(one, int) for one in value):
            return tuple(value)
        return None

    @property
    def layers(self) -> int:
        """Hidden layers. Raises InputError when there are none, or more than any model has."""
        count = self.need("num_hidden_layers", "n_layers", "n_layer", "num_layers")
        if not 0 < count <= _MOST_LAYERS:
            raise InputError(f"config.json says {count} layers")
        return count

    @property
    def nested(self) -> bool:
        """Whether the language model is a part of a larger one (vision, audio)."""
        return self.own is not self.whole

    @property
    def _defaults(self) -> Mapping[str, Any]:
        return _types().get(self.model_type, {})

    @property
    def _usual(self) -> Mapping[str, str]:
        names = self._defaults.get("names", {})
        return names if isinstance(names, Mapping) else {}


def read_fields(document: Mapping[str, Any]) -> Fields:
    """The fields of a config.json; its language model's where it has several parts."""
    model_type = document.get("model_type")
    outer = model_type if isinstance(model_type, str) else ""
    for name in _NESTED:
        inner = document.get(name)
        if isinstance(inner, Mapping) and name == "thinker_config":
            return read_fields({**inner, "model_type": inner.get("model_type", outer)})
        if isinstance(inner, Mapping) and inner:
            found = inner.get("model_type")
            default = _types().get(outer, {}).get("text_config", outer)
            return Fields(inner, document, found if isinstance(found, str) else str(default))
    text = _types().get(outer, {}).get("text_config")
    if isinstance(text, str) and document.get("hidden_size") is None:
        return Fields({}, document, text)
    return Fields(document, document, outer)


def known_types() -> frozenset[str]:
    """The model types with defaults on record."""
    return frozenset(_types())
