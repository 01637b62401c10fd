"""Mask secrets in text that leaves the tool.

A secret is known by its shape, wherever it stands (`sk-...`, `hf_...`: `token_shapes`), by the name before it
(`api_key='...'`, `--hf-token X`: `secret_names`), by the program's option or the place (`mysql -pX`:
`program_options`, `url_secrets`, `private_keys`), by the words or the table around it (`sentences`,
`tables_and_manifests`), or because it was seen so once in the same log (`Redactor`). To add one, add a row to the table
of that module. In doubt it is masked: a report can do without a word, a user can't do without the key. What follows a
name that only sounds secret (`pad_token`, `num_tokens`) stays.

Secrets are looked for in the plain form of a text (`plain_text`, `line_breaks`), values are read in any quoting
(`quoting`), and what is written is checked once more as a whole (`rendered`). Every pattern is anchored or bounded and
every scan goes forward only: the time is linear in the text. Masking never removes a newline.
"""

from vllm_doctor.redact.nested_values import redact_value
from vllm_doctor.redact.redactor import Redactor, redact, secrets_in
from vllm_doctor.redact.spans import MASK
from vllm_doctor.text.terminal_safe import safe_text

__all__ = ["MASK", "Redactor", "redact", "redact_value", "safe_text", "secrets_in"]
