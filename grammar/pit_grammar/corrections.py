"""What somebody probably meant by a request with a syntax error: a reason, and a request that is valid."""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal

MAX_LENGTH = 200  # of a text worth guessing about
_KIND = r"[A-Za-z][A-Za-z0-9._-]*"
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_COUNT = rf"{_NUMBER}(?:-{_NUMBER})?"


def corrections(text: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong, and the corrected text, which may still be invalid."""
    if len(text) > MAX_LENGTH:
        return
    text = whole = text.strip()
    for why, correct in _RULES:
        corrected, whole = correct(text), correct(whole)
        if corrected != text:
            yield why, corrected
    yield "several things are wrong", whole


def _replace(pattern: str, with_what: str | Callable[[re.Match[str]], str]) -> Callable[[str], str]:
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda text: compiled.sub(with_what, text)


def _scaled(factor: int) -> Callable[[re.Match[str]], str]:
    """Divide a number by its unit."""
    return lambda match: f"{format((Decimal(match[1]) / factor).normalize(), 'f')}:{match[2]}"


def _number_alone(text: str) -> str:
    match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", text)
    if not match:
        return text
    ends = sorted(int(number) for number in match.groups() if number)
    return "-".join(map(str, dict.fromkeys(ends))) + ":[]"


def _bracketed(text: str) -> str:
    """`a100`, `2:a100`, `cpu,mem` or `gpu@n0` without brackets."""
    if "[" in text or not re.match(rf"(?:{_COUNT}\s*:\s*)?{_KIND}", text):
        return text
    needs, at, place = text.partition("@")
    return f"[{needs.strip()}]{at}{place}"


def _closed(text: str) -> str:
    return f"{text}]" if text.count("[") == text.count("]") + 1 else text


_RULES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("the request is empty; [] is one process without a GPU", lambda text: text or "[]"),
    (
        "2:[] is two processes, [2:gpu] one process with two GPUs, and a number alone is neither",
        _number_alone,
    ),
    ("mem is counted in GiB, without a unit", _replace(rf"({_NUMBER})\s*gi?b?\s*:\s*(mem)\b", r"\1:\2")),
    (
        "mem is counted in GiB, without a unit",
        _replace(rf"({_NUMBER})\s*mi?b?\s*:\s*(mem)\b", _scaled(1024)),
    ),
    (
        "mem is counted in GiB, and the count comes first",
        _replace(rf"\b(mem)\s*[:=]\s*({_NUMBER})\s*(?:gi?b?)?", r"\2:\1"),
    ),
    ("mem is counted in GiB, without a unit", _replace(rf"\b({_NUMBER})\s*gi?b?(?=[\],])", r"\1:mem")),
    ("cpu is counted in cores", _replace(rf"({_NUMBER})\s*m\s*:\s*(cpu)\b", _scaled(1000))),
    ("a process is written in square brackets", lambda text: text.translate(str.maketrans("({)}", "[[]]"))),
    ("the count comes first", _replace(rf"({_KIND})\s*[:=]\s*({_COUNT})(?=\s*[\],])", r"\2:\1")),
    ("a kind is written without spaces", _replace(rf"({_KIND}) +(?=[0-9A-Za-z][^\[\]]*\])", r"\1")),
    ('":" follows the count', _replace(rf"({_COUNT})(?:\s*[x*×]\s*|\s+)({_KIND}|\[)", r"\1:\2")),
    ('":" follows the count', _replace(rf"({_COUNT})\s*,\s*(cpu|mem|gpu)\b", r"\1:\2")),
    ('":" follows the count', _replace(r"\b([0-9]+)\[", r"\1:[")),
    ("a process is written in brackets", _bracketed),
    ('"]" is missing', _closed),
    ('there is a "," too many', _replace(r",\s*(?=\]|$)", "")),
    ('"," comes between', _replace(r"\]\s*[;+ ]\s*(?=\[|[0-9])", "],")),
    ('"," comes between', lambda text: text.replace(";", ",").replace("+", ",")),
    ("a count is 1 or more", _replace(r"(^|[\[,])\s*-(?=[0-9])", r"\1")),
    ("a number has digits before the point", _replace(r"(?<=[\[,])\s*\.(?=[0-9])", "0.")),
    ("brackets are not nested", _replace(r"^\[([0-9-]+:\[[^\[\]]*\])\]$", r"\1")),
    ("brackets are not nested", lambda text: text.replace("[[", "[").replace("]]", "]")),
    ("a place follows the brackets", _replace(r"^(?=@)", "[]")),
    (
        "a kind begins with a letter, and `pit show nodes` lists the kinds; gpu is any GPU",
        _replace(r"(?<=[\[,:])\s*[0-9]+[a-z]*\s*(?=[\],])", "gpu"),
    ),
)
