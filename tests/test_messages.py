"""Messages are listed, in plain words, and an operator's mistake has a remedy."""

import ast
import re
from collections.abc import Iterator

from tests.messages import LIST, ROOT, listing, messages

_RULES = {
    "no clause with who, whose or what for a noun": re.compile(
        r"(?:^|[;:.] )(?:who|whose|what|how many)\b(?!.*\?)", re.IGNORECASE
    ),
    "no word of the project's past, and no idiom": re.compile(
        r"\b(?:whoever|whatever|whomever|in vain|goes? on|steer|put to use|signs of life|cannot be told|nowhere to go"
        r"|tenure|roster|repertoire|fuse|outbox|showcase|claimant|begin anew|is said)\b",
        re.IGNORECASE,
    ),
    "no full stop where no sentence begins with a capital": re.compile(r"^[a-z][^.\n]*[a-z]\.$"),
}
_WORDS_OF_A_SENTENCE = 25
_NO_MESSAGE = {"goes on"}
"""A value of the stdio binding."""
_IMPERATIVE = re.compile(r"\b(?:add|copy|correct|give|leave|make|name|set|show|stop|use|write)\b|→", re.IGNORECASE)
_FINDINGS = ("error", "error_at_key", "warning")


def test_the_list_of_messages_is_that_of_the_code() -> None:
    assert LIST.read_text() == listing(), "run python -m tests.messages, and read what differs"


def test_messages_keep_the_rules_of_language() -> None:
    found = [
        f"{each.path}: {rule}: {each.text}"
        for each in messages()
        for rule, broken in _RULES.items()
        if broken.search(each.text) is not None and each.text not in _NO_MESSAGE
    ]
    found += [
        f"{each.path}: over {_WORDS_OF_A_SENTENCE} words: {sentence}"
        for each in messages()
        for sentence in re.split(r"[.;:,] |\n", each.text)
        if len(sentence.split()) > _WORDS_OF_A_SENTENCE
    ]
    assert found == []


def test_an_operators_mistake_has_a_remedy() -> None:
    """Each problem of a configuration has a fact and a remedy; a wrong use of a command says what to write instead."""
    assert [f"{path}:{call.lineno}: {ast.unparse(call)}" for path, call in _calls() if not _has_remedy(call)] == []


def _calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((ROOT / "gateway").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield path.relative_to(ROOT).as_posix(), node


def _has_remedy(call: ast.Call) -> bool:
    """Return whether a call has a remedy, if it reports a mistake of an operator."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name in _FINDINGS and ast.unparse(call.func).startswith(("findings.", "self.findings.")):
        return _says_something(call.args[2])
    if name == "Problem":
        return _says_something(call.args[3])
    if name == "CommandFailed" and any(each.arg == "code" and ast.unparse(each.value) == "2" for each in call.keywords):
        said = [str(each.value) for each in ast.walk(call.args[0]) if isinstance(each, ast.Constant)]
        # Where the system gives the reason, it says what is to be done.
        is_told = "strerror" in ast.unparse(call) or any(map(_IMPERATIVE.search, said))
        return is_told or not any(map(str.isalpha, "".join(said)))
    return True


def _says_something(remedy: ast.expr) -> bool:
    return not (isinstance(remedy, ast.Constant) and not remedy.value)
