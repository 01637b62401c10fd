"""What follows from the facts by computation alone."""

from __future__ import annotations

from vllm_doctor.memory.quantities import Book, Facts, kv_bytes_per_token
from vllm_doctor.memory.solver.kv_cache import kv_gib, tokens_in_blocks, tokens_that_fit


def derived(facts: Facts) -> dict[str, float | int]:
    """What follows from the facts by computation alone; absent when it does not follow.

    kv_bytes_per_token, kv_cache_capacity_tokens, kv_gib_per_request (of max_model_len tokens),
    concurrency_at_max_model_len, kv_tokens_per_sequence (with max_num_seqs running), kv_cache_deficit_gib,
    device_gib (when the log does not print the total), budget_gib, outside_budget_gib.
    """
    book = Book(facts)
    found: dict[str, float | int] = {}
    if (per_token := kv_bytes_per_token(book)) is not None:
        found["kv_bytes_per_token"] = per_token
    length = book.number("max_model_len")
    capacity = _capacity_tokens(book, per_token)
    if capacity is not None:
        found["kv_cache_capacity_tokens"] = capacity
        if length:
            found["concurrency_at_max_model_len"] = round(capacity / length, 2)
        if (sequences := book.number("max_num_seqs")) and sequences >= 1:
            found["kv_tokens_per_sequence"] = int(capacity // sequences)
    needed, available = book.number("kv_cache_needed_gib"), book.number("kv_cache_available_gib")
    if needed is None and per_token and length:
        needed = kv_gib(length, per_token, book.block_size)
    if needed is not None:
        found["kv_gib_per_request"] = round(needed, 4)
        if available is not None and needed > available:
            found["kv_cache_deficit_gib"] = round(needed - available, 4)
    if book.total is not None and book.total_origin == "computed":
        found["device_gib"] = round(book.total, 2)
    if book.budget is not None and book.total_origin != "estimated":
        found["budget_gib"] = round(book.budget, 2)
        if book.total is not None:
            found["outside_budget_gib"] = round(book.total - book.budget, 2)
    return found


def _capacity_tokens(book: Book, per_token: int | None) -> int | None:
    """Tokens that the KV cache holds."""
    number = book.number
    tokens, concurrency = number("kv_cache_tokens"), number("max_concurrency")
    length = number("max_model_len")
    if tokens is not None:
        hybrid = concurrency and length and concurrency * length > 1.02 * tokens + 0.005 * length
        # Before 0.24 a hybrid model's tokens are understated and the concurrency is right.
        return int(concurrency * length) if hybrid and concurrency and length else int(tokens)
    if (blocks := number("kv_cache_gpu_blocks")) is not None:
        return tokens_in_blocks(int(blocks), book.block_size)
    available, estimate = number("kv_cache_available_gib"), number("estimated_max_model_len")
    if per_token is None or available is None or available <= 0:
        return None
    if estimate is not None:
        return int(estimate)
    held_back = book.version is None or book.version >= (0, 29, 0)
    block_size = book.block_size if number("block_size") else None
    return tokens_that_fit(available, per_token, block_size, held_back)
