r"""Options of programs, and other places without a name, that hold a secret: `docker login -p X`, `echo X | … login`.

To add a program, add a row to OPTIONS: the words that name it, then what stands right before the value. `SEP` is what
stands between words: blanks, `=`, or the quotes and the comma of a list (`["-p", "X"]`).
"""

from __future__ import annotations

from vllm_doctor.redact.quoting import ValueReader
from vllm_doctor.redact.secret_names import NAME
from vllm_doctor.redact.spans import Span, compiled, looks_random

SEP = r"""(?:[ \t]*\\\r?\n[ \t]*|[ \t]+|=|\\*["'],?[ \t]*\\*(?=["']))"""
GLUED = rf"(?:{SEP}|(?=[^\s=-]))"  # -p X or -pX
USER = r"""\\*["']?(?![0-9]+:[0-9]+(?![\w.]))[^\s:"'\\,]{0,64}:"""  # of user:password

DIGESTS = "(?:md5sum|sha[0-9]{1,3}sum|b2sum|base64|openssl)"  # that make a header or a hash of a password
READERS = (rf"(?:kinit|sudo|su|passwd|chpasswd|gpg|cryptsetup|ssh-add|gcloud|gh|vault|hf|huggingface-cli|wandb"
           rf"|{DIGESTS})")  # of a secret on standard input
LOGIN_OPTIONS = r"(?:-\S{1,80}[ \t]+(?:\S{1,80}://\S{1,200}[ \t]+)?){0,4}"

REGISTRY_CLIENT = "(?:docker|podman|nerdctl|buildah|skopeo|oras|helm|crane|regctl|az|acr|cr|singularity|apptainer)"

# a word that stands in the text, the program, the option
OPTIONS: tuple[tuple[str, str, str], ...] = (
    ("login", rf"{REGISTRY_CLIENT}\b[^\n;|]{{0,60}}?\blogin", rf"-p{GLUED}"),
    ("mysql", r"mysql\w{0,12}", r"-p(?=[^\s\"',=\\]|\\*[\"'](?![\s,]))"),
    ("mariadb", r"mariadb[\w-]{0,12}", r"-p(?=[^\s\"',=\\]|\\*[\"'](?![\s,]))"),
    ("-cli", r"(?:redis|valkey|keydb)-cli", rf"(?:-a|--pass){SEP}"),
    ("-server", r"(?:redis|valkey)-server", rf"(?:--requirepass|--masterauth){SEP}"),
    ("sshpass", r"sshpass", rf"-p{GLUED}"),
    ("mongo", r"mongo(?:sh|dump|restore|export|import)?", rf"-p{GLUED}"),
    ("curl", r"curl", rf"(?:-[a-zA-Z]{{0,8}}[uU]{GLUED}|--(?:user|proxy-user){SEP}){USER}"),
    ("curl", r"curl", rf"--oauth2-bearer{SEP}"),
    ("curl", r"curl", rf"""(?:-b|--cookie){SEP}\\*["']?[\w.-]{{1,64}}="""),
    ("curl", r"curl", rf"(?:--pass|--proxy-pass|--tlspassword){SEP}"),
    ("wget", r"wget", rf"--(?:user|auth){SEP}{USER}"),
    ("http", r"https?", rf"(?:-a|--auth){SEP}{USER}"),  # HTTPie
    ("openssl", r"openssl", rf"""-(?:passin|passout|pass){SEP}\\*["']?pass:"""),
    ("openssl", r"openssl", rf"(?:-[kK]|-hmac|passwd(?:[ \t]+-\w{{1,12}}){{0,4}}){SEP}(?!-)"),
    ("secret set", r"gh", rf"(?:-b|--body){SEP}"),
    ("obscure", r"rclone", rf"obscure{SEP}(?!-)"),
    ("keyvault", r"az", rf"--value{SEP}"),
    ("ssm", r"aws", rf"--value{SEP}"),
    ("secretsmanager", r"aws", rf"--secret-string{SEP}"),
    ("ossutil", r"ossutil(?:64|mac64)?", rf"-k{SEP}"),
    ("zip", r"(?:un)?zip", rf"-P{GLUED}"),
    ("7z", r"7z[ar]?", r"-p(?=\S)"),
    ("ldap", r"ldap(?:search|modify|add|whoami|delete)", rf"-w{GLUED}"),
    ("-pw", r"(?:plink|pscp|psftp|putty)", rf"-pw{SEP}"),
    ("smbclient", r"smbclient", rf"-U{SEP}[^\s%]{{1,64}}%"),
    ("htpasswd", r"htpasswd", r"-[a-zA-Z]{0,6}b[a-zA-Z]{0,6}[ \t]+\S{1,100}[ \t]+\S{1,64}[ \t]+"),
    ("wandb", r"wandb", rf"login[ \t]+{LOGIN_OPTIONS}(?!-)(?=[\w.-]{{10}})"),
    ("vault", r"vault", rf"login[ \t]+{LOGIN_OPTIONS}(?!-)(?=[\w.-]{{10}})"),
    ("--from-literal", r"(?:kubectl|oc)", rf"""--from-literal{SEP}\\*["']?[\w.-]{{1,100}}="""),
    ("--secret", r"pulumi", r"--secret[ \t]+[\w:.-]{1,100}[ \t]+(?!-)"),
    ("alias", r"mc", r"alias[ \t]+set(?:[ \t]+\S{1,200}){3}[ \t]+"),  # MinIO
    ("<<<", READERS, r"<<<[ \t]*"),
    ("sqlplus", r"sqlplus", r"[\w$#]{1,64}/(?=[^\s/@])"),
    ("mqtt", r"mqtt", rf"-P{GLUED}"),
    ("mosquitto_", r"mosquitto_(?:pub|sub|rr)", rf"-P{GLUED}"),
    ("sqlcmd", r"sqlcmd", rf"-P{GLUED}"),
    ("snmp", r"snmp\w{1,12}", rf"-[AX]{SEP}"),
    ("ipmitool", r"ipmitool", rf"-P{GLUED}"),
)
ARGUMENT = r"""\((?:\w{1,20}=)?(?=\\*["'])"""  # the first one of a call
QUOTED = r"""\\*["'][^"',\n]{1,200}["']"""
DIGEST_CALL = r"\b(?:sha[0-9_]{1,6}|md5|blake2[bs])\((?:[bu](?=\\{0,8}[\"']))?"
NOUN = r"(?:(?:api|access|auth|secret)[ _-]?key|secret|passw(?:or)?d|token(?![a-z]))"
RESP = r"(?:\\r\\n|\r?\n)"  # the end of a line in Redis' protocol
# A word that stands in the text, and a place that no program's name announces.
PLACES: tuple[tuple[str, str], ...] = (
    ("password", r"\b(?:machine\s{1,8}\S{1,200}|default)\s{1,40}(?:login\s{1,8}\S{1,100}\s{1,40})?password\s{1,8}"),
    ("stringData", r"stringData\\*[\"']?:\s{1,40}\{?[\w.\"'\\-]{1,80}:\s{0,8}"),  # a Kubernetes Secret
    *((program, rf"""(?x) \b {program} [ \t]{{1,8}} (?: -[neE]{{1,3}} [ \t]{{1,8}} )?
        (?: ["']? % [^\s|]{{1,8}} [ \t]{{1,8}} )? (?= [^\n|]{{1,200}} \| [^\n|]{{0,120}}
        \b (?: login | password-stdin | secrets?[ ]create | sudo[ ]-S | passwd | chpasswd | htpasswd
        | {DIGESTS} ) \b )""")
      for program in ("echo", "printf")),
    ("input_value=", (rf"(?i)(?:^|[\n.])(?=\w[\w .-]{{0,80}}\n[ ])[\w-]{{0,40}}(?:{NAME})"
                      r"\n[ ][^\n]{0,300}?\binput_value=")),  # pydantic
    ("ConvertTo-SecureString", r"ConvertTo-SecureString[ \t]{1,8}(?:-String[ \t]{1,8})?(?=[\"'])"),  # PowerShell
    ('"username"', r'"username":[ ]?"[^"\n]{1,100}",[ ]?"key":[ ]?(?=")'),  # kaggle.json
    ("task.setvariable", r"(?i)\[task\.setvariable [^\]\n]{0,200}?issecret=true[^\]\n]{0,100}\](?=\S)"),  # Azure
    (" Key ", r"(?:Unseal|Recovery) Key [0-9]{1,2}: (?=\S)"),  # Vault
    ("-stdin", r"--password-stdin[ \t]{0,8}<<<[ \t]*"),
    ("auth=(", r"""\bauth=\((?:\\*["'])[^"'\\\n]{0,100}\\*["'],[ \t]{0,8}(?=\\*["'])"""),  # requests: ("user", "X")
    (":543", r"(?<![\w.:/-])[\w.*-]{1,100}:543[0-9]:[\w*-]{1,64}:[\w*.-]{1,64}:(?=[^\s:]{3})"),  # .pgpass
    (":*:", r"(?<![\w.:/-])[\w.*-]{1,100}:(?:[0-9]{2,5}|\*):[\w*-]{1,64}:[\w*.-]{1,64}:(?=[^\s:]{3})"),
    ("@//", r"(?<![\w./-])[\w$#]{1,64}/(?=[^\s/@:]{2,64}@//)"),  # Oracle
    ("oracle:", r"oracle:(?:thin|oci[0-9]?):[\w$#]{1,64}/(?=[^\s@]{2,64}@)"),
    *((cue, rf"""{word}(?:\\{{0,8}}")?[ ](?:\\{{0,8}}"[^"\s\\]{{0,64}}\\{{0,8}}"[ ])?(?=\\{{0,8}}")""")  # Redis
      for cue, word in (("AUTH", "(?<![A-Z_])AUTH"), ('"auth', '"auth(?=[^ ])'), ("requirepass", "requirepass"),
                        ("masterauth", "masterauth"))),
    ("AUTH", rf"(?<![A-Z_])AUTH{RESP}(?:\$[0-9]{{1,4}}{RESP}[^\\\s]{{1,64}}{RESP})?\$[0-9]{{1,4}}{RESP}(?=[^\\\s])"),
    *((digest, place) for digest in ("sha", "md5", "blake2") for place in (
        rf"(?i){NOUN}[^\n]{{0,80}}?{DIGEST_CALL}(?=\\{{0,8}}[\"'])",
        rf"(?i){DIGEST_CALL}(?=\\{{0,8}}[\"'][^\"'\n]{{1,200}}[\"'][^\n]{{0,60}}{NOUN})")),
    ("send", (r"""(?i)(?:assw(?:or)?d|assphrase|asscode)[^"\n]{0,40}"[\s{};]{1,80}"""  # expect
              r"""send[ \t]{1,4}(?:--[ \t]{1,4})?(?=")""")),
    (";", r"(?i)(?<![\w.-])pwd[ ]?=[ ]?(?=[^\s;/]{1,100};)"),
    ("fs.azure.", r"fs\.azure\.(?:account\.key|sas|account\.oauth2\.client\.secret)\.[\w.-]{1,120}="),
)
# The same, whose value is a secret only if it looks random.
DOUBTFUL_PLACES: tuple[tuple[str, str], ...] = (
    ("-u", rf"(?<![\w-])(?:-u|--user){SEP}{USER}"),
    ("pgpass", r"(?<![\w.:/-])[\w.*-]{1,100}:(?:[0-9]{2,5}|\*):[\w*-]{1,64}:[\w*.-]{1,64}:(?=[^\s:]{8})"),
    (" for ", r"(?i)\bpass(?:phrase|word)[ \t]for[ \t][^\n:]{1,120}:[ \t]{1,8}(?=\S{8})"),
    ("password", r"\b(?:login|account)\s{1,8}[^\s,;]{1,100}\s{1,40}password\s{1,8}"),
    # as a list is printed without quotes: --api-key, X
    ("--", r"(?<![\w-])--(?:[a-z0-9]{1,20}-){0,4}(?:key|token|secret|passw(?:or)?d|auth),[ \t]{1,4}(?=\S{6})"),
    *((f"{name}(", rf"{name}{ARGUMENT}") for name in ("login", "authenticate", "compare_digest")),
    *((f"{name}(", rf"(?:save|set|add|use|with)_?(?:access_?)?{name}{ARGUMENT}")
      for name in ("token", "key", "secret", "password")),
    *((f"{name}_", rf"\b{name}_\w{{1,20}}{ARGUMENT}") for name in ("check", "verify", "validate")),
    ("compare_digest(", rf"compare_digest\((?:\w{{1,40}}|{QUOTED}),[ \t]{{0,4}}(?=\\*[\"'])"),
    ("pass", r"(?m)^[ \t]{0,8}pass[ \t]{0,8}[=:][ \t]{1,8}(?=\S{8})"),  # rclone.conf
    ("New value: ", r"New value: (?=\S{8})"),  # elasticsearch-reset-password
    ("getenv(", r"""(?i)getenv\(\\*["'][\w-]{0,60}(?:key|token|secret|passw(?:or)?d)\\*["']\)[ ]=[ ](?=\\*["'])"""),
    # davfs2's file of secrets
    ("://", r"(?m)^[ \t]{0,8}https?://\S{3,200}[ \t]{1,8}[\w.@-]{1,64}[ \t]{1,8}(?=[\w+=-]{12,100}[ \t\r]{0,8}$)"),
    # what a command prints that a secret is asked of: `aws ssm get-parameter --name db-password`
    ("\n", rf"(?im)^[^\n]{{0,40}}[$#%>][ \t][^\n]{{0,200}}?{NOUN}[^\n]{{0,200}}\n(?=\S{{12,200}}[ \t\r]{{0,8}}$)"),
    (" /user:", r"(?i)\bnet[ \t]use[ \t]\S{1,8}[ \t]\S{1,100}[ \t](?=\S)"),
)
_WINDOW = 1000  # characters behind a program's name in which its options stand


def option_spans(text: str) -> list[Span]:
    """Return the secrets in program options and other places that have no secret name."""
    found: list[Span] = []
    for cue, program, option in OPTIONS:
        if cue in text:
            found += _of_program(text, program, option)
    for cue, place in PLACES:
        if cue in text:
            found += _behind(text, place)
    for cue, place in DOUBTFUL_PLACES:
        if cue in text:
            found += [span for span in _behind(text, place) if looks_random(text[span.start : span.end])]
    return found


def program_pattern(program: str) -> str:
    """Return the expression of a program's name."""
    return rf"(?<![\w.-]){program}(?![\w.-])"


def option_pattern(option: str) -> str:
    """Return the expression of what stands before the value of an option."""
    return rf"(?<![\w-]){option}"


def _of_program(text: str, program: str, option: str) -> list[Span]:
    found: list[Span] = []
    values = ValueReader(text)
    at = 0
    while named := compiled(program_pattern(program)).search(text, at):
        end = compiled(r"(?:[^\n;|\\]|\\.|\\\r?\n)*").match(text, named.end(), named.end() + _WINDOW)
        at = end.end() if end else named.end()
        for match in compiled(option_pattern(option)).finditer(text, named.end(), at):
            value = values.read(match.end())
            if value is not None and value.end > value.start and not _is_harmless(text[value.start : value.end]):
                found.append(Span(value.start, value.end, "password", repeats=True))
    return found


def _behind(text: str, place: str) -> list[Span]:
    values = ValueReader(text)
    read = ((values.read(match.end())) for match in compiled(place).finditer(text))
    return [Span(value.start, value.end, "password", repeats=True) for value in read
            if value is not None and value.end > value.start and not _is_harmless(text[value.start : value.end])]


def _is_harmless(value: str) -> bool:
    """Return whether a value is the mask, a variable, or a file that holds the secret."""
    return value.strip("*\"'") == "" or value.startswith(("$", "@", "-", "<")) or value in {"None", "null"}
