"""Flags of other servers and programs (other_flags.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from vllm_doctor.catalog.yaml_catalog import read_catalog


class OtherFlags(NamedTuple):
    """Flags that vLLM does not have."""

    meant: Mapping[str, str]  # its flag of the same meaning; "" if it has none
    containers: tuple[str, ...]  # options of `docker run`


@lru_cache(maxsize=1)
def other_flags() -> OtherFlags:
    """Return the flags of other programs that users give to vLLM."""
    found = read_catalog("other_flags.yaml")
    return OtherFlags(found["meant"], tuple(found["containers"]))
