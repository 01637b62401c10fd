"""Check the texts of rules and documents: plain technical English, short titles, short explanations.

`rules lint` applies the checks to templates; a test applies them to the texts of real reports as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from vllm_doctor.authoring import template_outline as outline
from vllm_doctor.rulebase.folders import builtin_folder
from vllm_doctor.rulebase.lint import Problem, line_of
from vllm_doctor.rulebase.model import Action, FixRule, Rule

TITLE_WORDS = 12
EXPLANATION_SENTENCES = 4
SENTENCE_WORDS = 40

_BANNED: tuple[tuple[str, str], ...] = (
    (r"\blimps?\b", "runs slowly"),
    (r"\banew\b", "again"),
    (r"\blikewise\b", "also"),
    (r"\bwhole\b", "entire"),
    (r"\b(?:stands?|standing) (?:elsewhere|in|under|there|behind|before|after|above|below|once|best|still)\b", "is"),
    (r"\b(?:is|are|was|were) (?:told|said)\b", "is reported"),
    (r"\b(?:log|line|message|file|it) tells?\b", "shows"),
    (r"\btid(?:y|ies|ied|ying)\b", "clean shutdown"),
    (r"\btrial batch\b", "memory profiling run"),
    (r"\bPyTorch does not manage\b", "non-torch memory"),
    (r"\bone behind the other\b", "pipeline parallelism"),
    (r"\bshared evenly\b", "divisible by"),
    (r"\bmeeting of the ranks\b|\bcome to the meeting\b", "joined the process group"),
    (r"\b(?:is|are) lacking\b", "short"),
    (r"\bin 8 bits\b", "FP8"),
    (r"\b(?:has|have) not got\b|\b(?:has|have) not (?:a|an|the|any|it)\b", "does not have"),
    (r"\blet \w+ not\b", "an imperative with the flag"),
    (r"\bstop(?:ping)? each other\b", "preemption"),
    (r"\blook-alikes?\b", "similar failures"),
    (r"\bno matter of\b", "is not a … problem"),
    (r"\bways? out\b", "fix"),
    (r"\bspeaks? of\b", "mentions"),
    (r"\bspells? (?:of|between)\b", "period"),
    (r"\bdoes without\b|\bdo without\b", "without"),
    (r"\b(?:do|does|did|is|are|was|were|has|have|had|ca|wo|would|could|should)n['’]t\b", "no contractions"),
    (r"\b(?:it|that|there|what|let|here|who)['’]s\b|\w['’](?:re|ve|ll)\b", "no contractions"),
    (r"\basks? (?:it )?for\b", "requires or requests"),
    (r"\bbelongs? together\b", "matching"),
    (r"\bto test: ", "As a test, … or Try …"),
    (r"\bfor want of\b", "because there is no"),
    (r"\bits makers\b|\bas \w+ makers\b", "its documentation"),
    (r"\bset by hand\b", "set explicitly"),
    (r"\bat fault\b", "the cause"),
    (r"\ba defect in\b", "a bug in"),
    (r"\b(?:was|were|is|are) refused\b", "is rejected"),
    (r"\b(?:usual|possible|known|common|frequent) reasons?\b", "cause"),
    (r"\bplug-ins?\b", "plugin"),
    (r"\blicences?\b|\bdata[- ]centres?\b", "US spelling: license, data center"),
    (r"\bleft out of\b", "omitted from"),
    (r"\bneeds vLLM ?[<>=\d]", "vLLM X or newer"),
    (r"\blacks\b", "does not have"),
    (r"\bpkill\b|\bkillall\b", "kill PID: other instances may run"),
    (r"\bpip install [^'\"#<]{0,80}[\w\]](?:[<>]=|[<>]\d)", "quotes around a requirement with < or >"),
)  # fmt: skip
_BANNED_EXPRESSIONS = tuple((re.compile(expression, re.IGNORECASE), instead) for expression, instead in _BANNED)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]?\s+(?=\S)")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf)\.$")
_TEMPLATE = re.compile(r"\{%|%\}|\{#|(?<!\$)\{\{(?!\.)")
_QUOTED = re.compile(r"`[^`\n]*`|\"[^\"\n]*\"|“[^“”\n]*”")


def banned(text: str) -> Iterator[str]:
    """Yield the banned phrases of a text, each with what to write instead. Quoted words are not ours."""
    plain = _QUOTED.sub("…", text)
    for expression, instead in _BANNED_EXPRESSIONS:
        for match in expression.finditer(plain):
            yield f'"{match[0]}": write "{instead}"'


def sentences(text: str) -> list[str]:
    """Return the sentences of a text of one or more paragraphs."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        sentence = ""
        for piece in _SENTENCE_END.split(" ".join(paragraph.split())):
            sentence = f"{sentence} {piece}".strip()
            if not _ABBREVIATION.search(sentence):
                found.append(sentence)
                sentence = ""
        if sentence:
            found.append(sentence)
    return [sentence for sentence in found if sentence]


def check_title(title: str) -> Iterator[str]:
    """Yield what is wrong with a rendered title."""
    words = len(title.split())
    if words > TITLE_WORDS:
        yield f"the title has {words} words, more than {TITLE_WORDS}: {title}"
    if title.rstrip().endswith("."):
        yield f"the title ends with a full stop: {title}"
    yield from check_text(title)


def check_explanation(text: str) -> Iterator[str]:
    """Yield what is wrong with a rendered explanation."""
    count = len(sentences(_QUOTED.sub("…", text)))
    if not 1 <= count <= EXPLANATION_SENTENCES:
        yield f"the explanation has {count} sentences, not 1 to {EXPLANATION_SENTENCES}: {text}"
    yield from check_text(text)


def check_text(text: str) -> Iterator[str]:
    """Yield what is wrong with any text that a reader sees: templates, banned phrases, long sentences."""
    if _TEMPLATE.search(text):
        yield f"an unresolved template: {text}"
    yield from banned(text)
    for sentence in sentences(text):
        words = len(_QUOTED.sub("…", sentence).split())
        if words > SENTENCE_WORDS:
            yield f"a sentence has {words} words, more than {SENTENCE_WORDS}: {sentence}"


def lint_rule(rule: Rule) -> list[Problem]:
    """Return the problems of a rule's texts, branch by branch."""
    found = [(problem, "title:") for text in rule.titles for title in outline.titles(text)
             for problem in check_title(title)]
    found += [(problem, "explain:") for text in (*rule.explanations, rule.background)
              for problem in check_text(outline.prose(text))]
    for fix in rule.fixes:
        found += [(problem, f"id: {fix.id}") for problem in _fix_problems(fix)]
    return [Problem(rule.path, line_of(rule.path, word), text) for text, word in found]


def lint_actions(actions: Iterable[Action]) -> list[Problem]:
    """Return the problems of the texts of actions."""
    path = str(builtin_folder() / "actions.yaml")
    return [Problem(path, line_of(path, f"{action.id}:"), problem) for action in actions
            for text in (action.title, *(line for step in action.steps for line in outline.steps(step)))
            for problem in check_text(text)]


def _fix_problems(fix: FixRule) -> Iterator[str]:
    for title in outline.titles(fix.title):
        yield from check_text(title)
        if title.rstrip().endswith("."):
            yield f"the fix title ends with a full stop: {title}"
    for text in (fix.why, fix.cost, fix.verify):
        yield from check_text(outline.prose(text))
    names = [name for name in (*fix.set, *fix.unset, *fix.env) if name.startswith("-") or name[:1].isupper()]
    computed = [name for name in (*fix.set, *fix.unset, *fix.env) if name not in names]
    if names and not computed and not any(name.partition(".")[0] in fix.title for name in names):
        yield f"the fix title names none of {', '.join(names)}: {fix.title}"
