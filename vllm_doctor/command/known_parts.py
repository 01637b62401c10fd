"""Rebuild a command from its known parts: no report offers a shell line as it is printed in a log.

Kept are variables of vLLM and its libraries, launchers with their options, vLLM's program and its arguments; every
word is quoted again. Other commands of the line, pipes, redirections and substitutions are omitted, and the report
names what was omitted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Literal

from vllm_doctor.command.flags import is_flag, is_typographic
from vllm_doctor.command.launchers import CONTAINERS, LAUNCHERS, PRIVILEGED, REMOTE, SHELLS
from vllm_doctor.command.model import ASSIGNED, Command, Option, Word
from vllm_doctor.messages import message
from vllm_doctor.text.patterns import lazy_pattern

_VARIABLES = (
    "VLLM_", "CUDA_", "HF_", "HUGGING", "NCCL_", "TORCH", "PYTORCH_", "RAY_", "OMP_", "MKL_", "ROCR_", "HIP_",
    "HSA_", "GLOO_", "UCX_", "NVIDIA_", "TRANSFORMERS_", "TOKENIZERS_", "TRITON_", "FLASHINFER_",
    "SAFETENSORS_", "MODELSCOPE_", "ASCEND_", "ONEAPI_", "ZE_", "CCL_", "TPU_", "PJRT_", "XLA_", "MASTER_",
    "KMP_", "AITER_", "LMCACHE_", "NIXL_", "MC_", "GPU_", "AMD_", "MIOPEN_", "HABANA_", "PT_HPU", "INDUCTOR_",
    "CUBLAS_",
)  # fmt: skip
_MORE_VARIABLES = frozenset({
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "HOST_IP", "HOME", "LANG", "LC_ALL", "TZ", "NO_PROXY", "no_proxy", "HTTP_PROXY",
    "HTTPS_PROXY", "http_proxy", "https_proxy", "DO_NOT_TRACK", "MALLOC_ARENA_MAX", "TMPDIR", "XDG_CACHE_HOME",
})  # fmt: skip
_LOADS_CODE = lazy_pattern(r"PRELOAD|PYTHONPATH|PYTHONSTARTUP|BASH_ENV|PLUGIN|_ALLOW_INSECURE|LIBRARY_PATH")
_VALUE_OF_SUDO = lazy_pattern(
    r"-[A-Za-z]{0,8}[ughpCDRTUrt]|--(?:user|group|host|prompt|chdir|chroot|role|type|shell|command)")
_LAUNCHER_WORD = lazy_pattern(r"[][\w./:=,@%+~<>!#?-]{1,4000}", re.ASCII)  # of a word that is quoted again
_RUNS_CODE = lazy_pattern(r"--?(?:\w+-)*(?:prolog|epilog|agent|rsh|hook|exec|preload|split-string)\b|-S")
_EXPANDED = lazy_pattern(
    r"[\w./:=@,+%~-]*(?:\$(?:\w+(?!\w)|\{\w+(?::?-[\w./:-]*)?\})[\w./:=@,+%~-]*)+|~[\w./:=@,+%-]*", re.ASCII)
_FILLED_IN = lazy_pattern(
    r"(?:[\w./:=@,+%-]|\$\([A-Za-z_]\w{0,80}\)|\{\{-? {0,4}[\w.]{1,200} {0,4}-?\}\}){1,400}", re.ASCII)
_PYTHON = lazy_pattern(  # a name, or a sum or product of few numbers
    r"\*{0,2}[A-Za-z_][\w.]{0,80}|\d[\d_.]{0,20}(?: ?(?:[*+-]|//?) ?\d[\d_.]{0,20}){0,8}", re.ASCII)
_EMBRACED = lazy_pattern(r"<[\w .-]{1,40}>|\.\.\.")
_CONTAINER_OPTIONS = frozenset({
    "--add-host", "--annotation", "--cap-add", "--cap-drop", "--cpus", "--cpuset-cpus", "--cpuset-mems",
    "--detach", "--device", "--entrypoint", "--env", "--env-file", "--gpus", "--group-add", "--hostname",
    "--init", "--interactive", "--ipc", "--label", "--log-driver", "--log-opt", "--memory", "--memory-swap",
    "--mount", "--name", "--net", "--network", "--oom-score-adj", "--pid", "--pids-limit", "--platform",
    "--privileged", "--publish", "--publish-all", "--pull", "--quiet", "--read-only", "--replace", "--restart",
    "--rm", "--runtime", "--security-opt", "--shm-size", "--sig-proxy", "--stop-timeout", "--tmpfs", "--tty",
    "--ulimit", "--user", "--userns", "--volume", "--volumes-from", "--workdir", "--device-cgroup-rule",
    "--cgroupns", "--uts", "--no-healthcheck", "--oom-kill-disable", "--tls-verify", "--rmi",
})  # fmt: skip
_CONTAINER_SHORT = lazy_pattern(r"-[a-zA-Z]{1,4}")
_OMITTED_KINDS = {
    "|": message("a pipe"), "|&": message("a pipe"), ";": message("other commands"), ";;": message("other commands"),
    "&&": message("other commands"), "||": message("other commands"),
    "&": message("running in the background"), "\n": "", "(": message("a subshell"), ")": message("a subshell"),
    "#": "",
}  # fmt: skip


def is_offered_variable(name: str) -> bool:
    """Return whether a variable may be part of an offered command."""
    known = name.startswith(_VARIABLES) or name in _MORE_VARIABLES
    return known and not _LOADS_CODE.search(name)


def rebuild(command: Command) -> tuple[Command, tuple[str, ...]]:
    """Return the command rebuilt from its known parts, and the kinds of the parts that were omitted."""
    omitted: dict[str, None] = {}
    before, program, container = _before(command, omitted)
    for word in (*command.before[: command.start], *command.after):
        _add_omitted(word, omitted)
    options = tuple(option for each in command.options if (option := _option(each, command, omitted)) is not None)
    outer = command.outer
    if outer is not None:
        for word in outer.after:
            _add_omitted(word, omitted)
        shell = outer.before[-2:] if len(outer.before) > 1 else outer.before
        lead = outer.before[: len(outer.before) - len(shell)]
        kept = _container_words(lead, omitted) if any(word.program in CONTAINERS for word in lead) else []
        if lead and not kept:
            omitted[message("the program around the shell")] = None
        is_shell = bool(shell) and shell[0].program in SHELLS and bool(_LAUNCHER_WORD.fullmatch(shell[-1].text))
        inner = (*before, *(word for option in options for word in option.words()))
        quote = outer.quote if _needs_outer_shell(inner) else ""
        outer = outer._replace(before=(*kept, *map(_requoted, shell)), after=(), quote=quote) if is_shell else None
    document = command.document
    if command.form == "python":
        document = document._replace(tail=document.tail[: document.tail.find(")") + 1])
    environment = tuple((name, value) for name, value in command.environment if is_offered_variable(name))
    result = command._replace(
        before=tuple(before), after=(), options=options, start=0, program=program, container=container, outer=outer,
        environment=environment, document=document)
    return result, tuple(omitted)


def _needs_outer_shell(words: Sequence[Word]) -> bool:
    """Return whether words name variables that the shell around them replaces, and nothing else that it would."""
    unknown = [word for word in words if word.value is None]
    return bool(unknown) and all(map(_is_safe, unknown)) and not any("!" in word.text for word in words)


def _add_omitted(word: Word, omitted: dict[str, None]) -> None:
    """Add the kind of a word that is no part of the command to the omitted ones."""
    kind = _OMITTED_KINDS.get(word.text)
    if kind is None:
        kind = message("a redirection") if ">" in word.text or "<" in word.text else ""
    if kind:
        omitted[kind] = None


def _before(command: Command, omitted: dict[str, None]) -> tuple[list[Word], int, int | None]:
    """Return the words up to vLLM's arguments, and the indexes of the program and the image."""
    words = command.before
    result: list[Word] = []
    environment = set(command.environment)
    for word in words[: command.start]:  # variables that earlier commands of the line export
        assigned = ASSIGNED.fullmatch(word.content)
        known = None if assigned is None or word.value is None else assigned[2]
        if assigned and (assigned[1], known) in environment and not _refusal(word, assigned[1]):
            result.append(_assignment(word, assigned[1])._replace(gap=" "))
    if command.container is not None:
        image = command.container
        result += _container_words(words[command.start : image], omitted)
        container: int | None = len(result)
        result.append(_requoted(words[image]))
        first = image + 1
    else:
        container, first = None, command.start
    result += _launcher_words(words[first : command.program], omitted)
    program = len(result)
    result += [_requoted(word) for word in words[command.program :]]
    return result, program, container


def _launcher_words(words: tuple[Word, ...], omitted: dict[str, None]) -> list[Word]:
    """Return the known launchers with their options; what belongs to sudo or to an unknown program is omitted."""
    result: list[Word] = []
    program: Literal["", "launcher", "sudo", "unknown"] = ""  # whose words these are
    takes_value = False  # an option of sudo
    launcher = ""
    for word in words:
        text = word.content
        name = word.program
        if program == "sudo" and (takes_value or text.startswith("-")):
            takes_value = not takes_value and bool(_VALUE_OF_SUDO.fullmatch(text))
            continue
        if assigned := ASSIGNED.fullmatch(text):
            if reason := _refusal(word, assigned[1]):
                omitted[reason] = None
                if launcher != "env":  # whose options take no variable
                    _remove_open_option(result)
            else:
                result.append(_assignment(word, assigned[1]))
        elif name in PRIVILEGED:
            omitted["sudo"] = None
            program = "sudo"
        elif name in LAUNCHERS and (name != "exec" or program in {"", "launcher"}):  # else `kubectl exec`
            result.append(_requoted(word))
            program, launcher = "launcher", name
        elif program == "launcher" and name not in REMOTE and _is_harmless(text):
            result.append(_requoted(word))
        else:
            omitted[message("a program around vLLM that is not known")] = None
            if program == "launcher" and name not in REMOTE and not text.startswith("-"):
                _remove_open_option(result)
            program = "unknown"
    return result


def _refusal(word: Word, variable: str) -> str:
    """Return why a word that sets a variable is not offered; empty if it is."""
    if not is_offered_variable(variable):
        return message("variables that are not vLLM's or could load code")
    return "" if _is_safe(_assigned_value(word, variable)) else message("values that only a shell can compute")


def _assigned_value(word: Word, variable: str) -> Word:
    """Return the value that a word gives to a variable, as a word; the word itself if it is quoted as a whole."""
    if not word.text.startswith(f"{variable}="):
        return word
    return Word(word.text.partition("=")[2], None if word.value is None else word.value.partition("=")[2])


def _assignment(word: Word, variable: str) -> Word:
    """Return a word that sets a variable, with its value quoted again."""
    value = _assigned_value(word, variable)
    quoted = _requoted(value)
    return quoted if value is word else quoted._replace(
        text=f"{variable}={quoted.text}", value=None if value.value is None else f"{variable}={value.value}")


def _remove_open_option(words: list[Word]) -> None:
    """Remove the last word if it is an option that waits for its value, so that it does not take the next word."""
    if words and is_flag(words[-1].content) and "=" not in words[-1].content:
        words.pop()


def _is_harmless(text: str) -> bool:
    """Return whether a word is an option or a value of a launcher that runs no other code."""
    return _LAUNCHER_WORD.fullmatch(text) is not None and not _RUNS_CODE.match(text)


def _container_words(words: tuple[Word, ...], omitted: dict[str, None]) -> list[Word]:
    """Return the words of a `docker run` up to its image, with the known options."""
    at = next((index for index, word in enumerate(words) if word.program in CONTAINERS), 0)
    result = _launcher_words(words[:at], omitted)
    index = at
    while index < len(words):
        word = words[index]
        text = word.content
        name, equals, value = text.partition("=")
        index += 1
        following = words[index] if index < len(words) and not is_flag(words[index].content) else None
        if not is_flag(text):
            if _is_safe(word):
                result.append(_requoted(word))
            else:
                omitted[message("values that only a shell can compute")] = None
                _remove_open_option(result)
            continue
        value_follows = following is not None and not equals
        if name in {"-e", "--env"} or (name.startswith("-e") and equals and not name.startswith("--")):
            joined = value if name in {"-e", "--env"} else text[2:]
            alone = Word.quoted(joined) if word.value is not None else Word(joined, None)
            assigned = following if following is not None and not equals else alone
            index += value_follows
            variable = _unquoted(assigned.content).partition("=")[0]
            if reason := _refusal(assigned, variable):
                omitted[reason] = None
            else:
                result += [Word("-e", "-e"), _assignment(assigned, variable)]
        elif _is_safe(word) and (name in _CONTAINER_OPTIONS or (name[1:2] != "-" and _CONTAINER_SHORT.match(name))):
            result.append(_requoted(word))
        else:
            omitted[message("options of the container that are not known")] = None
            index += value_follows
    return result


def _option(option: Option, command: Command, omitted: dict[str, None]) -> Option | None:
    """Return an argument of vLLM quoted again; None when only a shell or Python could evaluate it."""
    words = (*((option.flag,) if option.flag is not None else ()), *option.values)
    if command.form == "python":
        if all(word.value is not None or _PYTHON.fullmatch(word.text) for word in words):
            return option
        omitted[message("values that only Python can compute")] = None
        return None
    if command.form == "yaml":
        return option
    if _is_in_list(command) and all(word.value is not None or _FILLED_IN.fullmatch(word.text) for word in words):
        return option
    if not all(_is_safe(word) for word in words):
        omitted[message("values that only a shell can compute")] = None
        return None
    flag = option.flag
    if flag is not None and not is_typographic(flag.text):
        flag = _requoted(flag)
    return option._replace(flag=flag, values=tuple(map(_requoted, option.values)))


def _is_in_list(command: Command) -> bool:
    """Return whether the words are items of a list, which Kubernetes (`$(NAME)`) and Helm read, and no shell."""
    return command.form in {"compose", "kubernetes"} and command.outer is None and (
        command.document.style in {"flow", "list"})


def _is_safe(word: Word) -> bool:
    """Return whether a word's value is known, or is a variable of the user's without a substitution."""
    return word.value is not None or bool(_EXPANDED.fullmatch(_unquoted(word.text)) or _EMBRACED.fullmatch(word.text))


def _requoted(word: Word) -> Word:
    """Return the word quoted again, after one blank or on its own line."""
    gap = " \\\n  " if "\\\n" in word.gap and len(word.gap) < 40 else " "
    if _EXPANDED.fullmatch(word.text):  # typed without quotes: a shell splits it, and replaces a leading tilde
        return word._replace(gap=gap)
    if word.value is None:
        inside = _unquoted(word.text)
        return word._replace(text=f'"{inside}"' if _EXPANDED.fullmatch(inside) else shlex.quote(inside), gap=gap)
    return Word.quoted(word.value, gap)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
