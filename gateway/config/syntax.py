"""What the YAML parser says, in the operator's words."""

from collections.abc import Sequence

import yaml

_ALIKE = "indent the keys of one mapping alike; quote values that end early"
_TOLD = (
    (
        "mapping values are not allowed",
        "a ': ' stands where no key can",
        "quote the value if the ': ' belongs to it; else look at the indentation",
    ),
    ("could not find expected ':'", "a key without a ':' is here", "write `key: value`, with a space behind the colon"),
    ("expected ',' or '}'", "the { of this mapping has no }", "close it, and put commas between its keys"),
    ("expected ',' or ']'", "the [ of this list has no ]", "close it, and put commas between its items"),
    (
        "did not find expected '-' indicator",
        "a list ends here in the middle",
        "start each item with '- ', all at one indentation",
    ),
    ("did not find expected key", "no key is here where one must be", _ALIKE),
    ("expected <block end>", "no key is here where one must be", _ALIKE),
    ("unexpected end of stream", "a quoted text never ends", "close the quote"),
    ("unknown escape character", "this backslash escape does not exist", "double it, or use 'single quotes'"),
    ("incompatible YAML document", "the %YAML line asks for another YAML", "remove the line"),
    ("tag", "tags are not used in this format", "remove the tag, or quote the value"),
    ("anchor", "anchors and aliases are not used in this format", "write the value out, or quote it"),
    ("alias", "anchors and aliases are not used in this format", "write the value out, or quote it"),
    ("did not find expected node content", "a value is missing here", "write one, or remove what stands before it"),
    ("block sequence entries are not allowed", "a list cannot start here", "put it on its own line, below its key"),
)
"""Parts of the messages of libyaml and PyYAML, with a fact and a remedy; the first that is found counts."""


def explain(error: yaml.MarkedYAMLError, lines: Sequence[str]) -> tuple[int, int, str, str]:
    """Line and column (from 1), fact and remedy of a syntax error."""
    mark = error.problem_mark or error.context_mark
    line, column = (1, 1) if mark is None else (min(mark.line + 1, len(lines)), mark.column + 1)
    text = lines[line - 1] if lines else ""
    said = error.problem or ""
    if "cannot start any token" in said:
        return line, column, *_odd_start(text[column - 1 : column])
    fact, remedy = next(
        ((fact, remedy) for part, fact, remedy in _TOLD if part in said),
        ("this is no YAML", "look at this line and the one above"),
    )
    # In { } and [ ] a brace ends a plain word, so that ${VAR} falls apart.
    above = lines[max(line - 2, 0) : line]
    if any("${" in one and ("{" in one.replace("${", "") or "[" in one) for one in above):
        remedy = 'inside { } and [ ] a reference needs quotes: "${VAR}"'
    elif "unexpected end of stream" in said and error.context_mark is not None:
        line, column = min(error.context_mark.line + 1, len(lines)), error.context_mark.column + 1
        fact = "the quote that opens here never closes"
    return line, column, fact, remedy


def _odd_start(character: str) -> tuple[str, str]:
    if character == "\t":
        return "the line is indented with a tab", "indent with spaces"
    return f"a plain value cannot start with {character!r}", "quote the value"
