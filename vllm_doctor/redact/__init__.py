"""Mask secrets in text that leaves the tool.

A secret is known by its shape, wherever it stands (`sk-...`, `hf_...`, a private key, a URL's password), or
by the name before it (`api_key='...'`, `--hf-token X`, `"password": "..."`, `VLLM_API_KEY=...`). In doubt it is
masked: a report can do without a word, a user can't do without the key. What follows a name that only sounds
secret (`pad_token`, `num_tokens`) stays.

Every pattern is anchored or bounded and every scan goes forward only: the time is linear in the text. Masking
never removes a newline.
"""

from vllm_doctor.redact.patterns import MASK
from vllm_doctor.redact.texts import redact, redact_lines, secrets_in
from vllm_doctor.redact.values import redact_value
from vllm_doctor.terminal_safe import safe_text

__all__ = ["MASK", "redact", "redact_lines", "redact_value", "safe_text", "secrets_in"]
