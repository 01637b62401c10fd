"""Whether a mended server does what was asked for: a port that answers is not enough where tools or an adapter were wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from events import chat, embedding, of_adapter, with_tools
from server import Server, complete

ASKED: dict[str, Callable[[Server], tuple[int, Any]]] = {
    "": lambda server: complete(server.port),
    "chat": chat,
    "tools": with_tools,
    "adapter": of_adapter,
    "embedding": embedding,
}
