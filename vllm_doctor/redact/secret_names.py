"""Names that announce a secret: `--hf-token`, `VLLM_API_KEY`, `accessToken`; `pad_token` only sounds so.

To add one, add its words to NAMES, and to KINDS if reports should say whose it is. A name that leaves it open
(`my_token`) announces a secret only if the value looks random.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from vllm_doctor.redact.spans import compiled

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"  # of names
# What names of secrets end in, in small letters; `_`, `-`, `.` or a blank may join the words.
_ANY_KEY = "(?<=[a-z0-9]_)key"  # WEIGHTS_KEY: only with a random value
NAMES = (
    "secret[ _-]?access[ _-]?key", "access[ _-]?key(?:[ _-]?id)?", "api[ _.-]?key",
    "(?:secret|private|account|shared|signing|encryption|master|auth|subscription)[ _-]?key(?:[_-]?id)?",
    "(?:salt|fernet|storage|webhook|cookie|session|license|deploy|root|admin|service)[ _-]?key(?:[_-]?id)?",
    "kaggle[ _-]?key", "x-[a-z0-9]{1,20}-key", _ANY_KEY, "secret[ _-]?id", "secret",
    "pass(?:word|wd|[ _-]?phrase|code)", "(?<=[_;-])(?:pwd|pass|pw)", "(?<![a-z0-9])(?:pwd|pw|sshpass)(?=[=:])",
    "token", "credential", "sharedaccesssignature", "authorization", "cookie", "(?<![a-z0-9])_?auth",
    "client[ _-]?key[ _-]?data", "passwort", "kennwort", "mot de passe", "contrase(?:ñ|n\u0303?)a",
    "senha", "wachtwoord", "hasło", "şifre",
    "honeycomb-team", "密码", "密碼", "密钥", "口令", "令牌", "パスワード", "пароль", "비밀번호", "암호",
)  # fmt: skip
# What may stand behind: `OPENAI_API_KEY_2`, `HF_TOKEN_PROD`.
_AFTERWARDS = ("prod", "production", "dev", "staging", "test", "live", "main", "primary", "secondary", "backup", "old",
               "new", "value")
_ENDINGS = f"s?(?:_?[0-9]{{1,2}})?(?:_(?:{'|'.join(_AFTERWARDS)}))?"
NAME = rf"(?:{'|'.join(NAMES)}){_ENDINGS}(?![A-Za-z0-9_-])"
_KNOWN = rf"(?:{'|'.join(name for name in NAMES if name != _ANY_KEY)}){_ENDINGS}$"
CUES = ("key", "secret", "pass", "pwd", "_pw", "-pw", "token", "credential", "auth", "cookie", "sharedaccess",
        "honeycomb", "securestring", "pw=", "pw:", "密", "令", "パス", "парол", "비밀", "암호", "hasło",
        "şifre", "kennwort", "contrase", "senha", "wachtwoord")

# The word before `token` that makes it a credential; or a piece of text. Others: a value that looks random is
# masked.
_CREDENTIAL_OF = frozenset({
    "hf", "hub", "huggingface", "face", "auth", "authentication", "access", "api", "session", "security", "refresh",
    "id", "bearer", "gh", "github", "gitlab", "git", "oauth", "oauth2", "personal", "pat", "app", "service",
    "registry", "modelscope", "wandb", "replicate", "vault", "jwt", "sas", "deploy", "admin", "login", "seed",
    "ngc", "nvidia", "docker", "npm", "pypi", "slack", "telegram", "discord", "join", "bootstrap", "csrf", "xsrf",
    "client", "secret", "private", "ray", "bot", "identity", "hcp", "user",
})
_PIECE_OF_TEXT = frozenset({
    "pad", "bos", "eos", "unk", "sep", "cls", "mask", "image", "video", "audio", "vision", "per", "next", "first",
    "last", "stop", "start", "end", "begin", "think", "thinking", "special", "added", "extra", "prompt", "output",
    "input", "decoded", "decode", "prefill", "new", "num", "max", "min", "context", "draft", "sampled", "generated",
    "tool", "placeholder", "bad", "boi", "eoi", "eot", "n", "idx", "step", "valid", "response", "class", "prefix",
    "suffix", "media", "add", "use",
})
_LOGIN_OF = frozenset({
    "db", "user", "admin", "root", "mysql", "postgres", "pg", "redis", "smtp", "ftp", "mongo", "proxy", "http",
    "ssl", "key", "auth", "login", "ssh", "sudo", "become",
})
_OWNERS = {
    **dict.fromkeys(("hf", "huggingface", "hugging", "hub"), "hf-token"),
    **dict.fromkeys(("aws", "amz", "s3"), "aws-key"),
    "azure": "azure-key",
    "gcp": "gcp-key",
    "wandb": "wandb-key",
}
KINDS = {  # a part of the name -> the kind
    "account": "azure-key",
    "sharedaccess": "azure-key",
    "accesskey": "aws-key",
    "private": "private-key",
    "keydata": "private-key",
    **dict.fromkeys(("kennwort", "contrase", "senha", "wachtwoord"), "password"),
    "apikey": "api-key",
    "secret": "secret",
}


class Name(NamedTuple):
    """What a name announces: the kind of secret, and whether its value surely is one."""

    kind: str
    is_sure: bool  # else a value is masked if it looks random, or is assigned to a variable or a flag of that name
    is_vague: bool = False  # only a value that looks random is masked, wherever it stands


@lru_cache(maxsize=1024)  # a log repeats few names
def classify(name: str) -> Name | None:
    """Return the kind of secret a name (`--hf-token`, `VLLM_API_KEY`, `accessToken`) denotes; None if not secret."""
    if not name.isascii():
        return Name("password", is_sure=True)
    words = [
        word
        for word in re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[-80:]).lower())
        if word and not word.isdigit()
    ]
    if len(words) > 1 and words[-1] in _AFTERWARDS:
        words.pop()
    if not words:
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    joined = "".join(words)
    kind = next((_OWNERS[word] for word in words if word in _OWNERS), "")
    if token := re.search("tokens?[0-9]{0,2}$", last):
        before = last[: token.start()] or before
        if before in _PIECE_OF_TEXT or (last.endswith("s") and before not in _CREDENTIAL_OF):
            return None
        return Name(kind or "token", is_sure=before in _CREDENTIAL_OF or (name.isupper() and before != ""))
    if last == "pass" and before not in _LOGIN_OF:
        return Name("password", is_sure=False, is_vague=True) if name.isupper() else None
    if last in {"key", "keys"} and compiled(_KNOWN).search(name.lower()) is None:
        return Name("api-key", is_sure=False, is_vague=True) if name.isupper() else None  # not cache_key
    if last == "id" and before == "secret":
        return Name("secret", is_sure=False, is_vague=True)  # of Vault, or the name of a secret of AWS
    if last == "auth":
        return Name(kind or "registry-token", is_sure=False)
    if last.startswith(("pass", "pwd", "pw")) or "pass" in last:
        return Name("password", is_sure=words != ["pwd"])  # a folder, mostly
    if last.startswith("credential"):
        return Name(kind or "secret", is_sure=False)
    if last in {"authorization", "cookie", "cookies"}:
        return Name("bearer", is_sure=True)
    return Name(kind or next((KINDS[part] for part in KINDS if part in joined), "api-key"), is_sure=True)
