from pathlib import Path
from textwrap import dedent

from gateway.config.secrets import Interpolation
from gateway.config.yaml import DEEPEST, LARGEST_FILE, Source, Value, plain, read, surprise
from tests.table import for_each


def source(text: str) -> Source:
    return read(Path("folder/gateway.yaml"), Interpolation({"A": "no", "B": "x: [1"}), dedent(text))


def told(text: str) -> list[tuple[int, int, str]]:
    return [(one.place.line, one.place.column, one.fact) for one in source(text).problems]


def test_values_are_plain_and_every_key_and_value_has_its_place() -> None:
    found = source(
        """\
        agents:
          billing:
            match:
              - { path: /a2a, tenant: billing }
            backend: 'http://127.0.0.1'
        """
    )
    assert found.tree == {
        "agents": {"billing": {"match": [{"path": "/a2a", "tenant": "billing"}], "backend": "http://127.0.0.1"}}
    }
    path = ("agents", "billing", "match", 0, "path")
    assert (found.marks.key(path).line, found.marks.key(path).column) == (4, 11)
    assert (found.marks.place(path).line, found.marks.place(path).column) == (4, 17)
    assert found.marks.place(path).file == "folder/gateway.yaml"


def test_the_value_of_a_reference_is_always_text() -> None:
    found = source("a: ${A}\nb: ${B}\nc: $${A}\nd: ${C:-12}\n")
    assert (found.tree, found.problems) == ({"a": "no", "b": "x: [1", "c": "${A}", "d": "12"}, ())
    assert found.marks.written[("a",)] == "${A}"


def test_the_first_of_duplicate_keys_is_kept_and_the_second_read_to_its_end() -> None:
    found = source("a: 1\na: { b: { c: 1, c: 2 } }\nd: 3\n")
    assert found.tree == {"a": 1, "d": 3}
    assert [one.fact for one in found.problems] == [
        "'a' is already written (line 1)",
        "'c' is already written (line 2)",
    ]


@for_each(
    ("text", "expected"),
    [
        ("path: &x 1\n", (1, 7, "&x is an anchor")),
        ("path: !!str 1\n", (1, 7, "!!str is a tag")),
        ("path: ! 1\n", (1, 7, "! is a tag")),
        ("path: !<tag:example.com,2026:x> 1\n", (1, 7, "!<tag:example.com,2026:x> is a tag")),
        ("%TAG !e! tag:example.com:\n---\npath: !e!x 1\n", (3, 7, "!<tag:example.com:x> is a tag")),
        ("path: !a%20%0Ab 1\n", (1, 7, "!ab is a tag")),
        ("path: [1, *x]\n", (1, 11, "*x is an alias")),
        ("*x : 1\n", (1, 1, "a key is an alias")),
        ("? {a: 1}\n: 1\n", (1, 3, "a key is a list or a mapping")),
        ("<<: {a: 1}\n", (1, 1, "<< is a merge key")),
        ("true: 1\n", (1, 1, "the key true is not text")),
        ("?\n: 1\n", (1, 2, "the key nothing is not text")),
        ("1.5: 1\n", (1, 1, "the key 1.5 is not text")),
        ("${A}: 1\n", (1, 1, "references are not filled in in keys")),
        ("a: 1\n---\nb: 1\n", (2, 1, "a second document starts here")),
        ("# nothing\n", (1, 1, "the file is empty")),
        ("text\n", (1, 1, "the file is no mapping")),
        ("a: 1\x00\n", (1, 5, "the character U+0000 cannot stand in the file")),
        ("a: 1\nb: \u2028\n", (2, 4, "the character U+2028 cannot stand in the file")),
        ("a: b: c", (1, 5, "a ': ' stands where no key can")),
        ("a:\n\tb: 1", (2, 1, "the line is indented with a tab")),
        ("a: `x`", (1, 4, "a plain value cannot start with '`'")),
        ("a: 'x\nb: 1\n", (1, 4, "the quote that opens here never closes")),
        ("a: [1\nb: 2", (2, 2, "the [ of this list has no ]")),
        ("- a\nb: 1", (2, 1, "a list ends here in the middle")),
        ('a: "\\q"', (1, 5, "this backslash escape does not exist")),
        ("a: }", (1, 4, "a value is missing here")),
        ("a: - b", (1, 4, "a list cannot start here")),
        ("a: " + "[" * DEEPEST + "]" * DEEPEST, (1, 35, f"mappings and lists nest deeper than {DEEPEST} levels")),
    ],
)
def test_ambiguous_yaml_is_refused_at_its_place(text: str, expected: tuple[int, int, str]) -> None:
    assert expected in told(text)


def test_a_quoted_merge_key_or_number_is_an_ordinary_key() -> None:
    assert source("'<<': 1\n'7': 2\n\"no\": 3\n").tree == {"<<": 1, "7": 2, "no": 3}


def test_a_file_that_is_no_text_is_refused_where_it_stops_being_text(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"version: 1\nname: caf\xe9\n")
    (problem,) = read(path, Interpolation({})).problems
    assert (problem.place.line, problem.place.column, problem.fact) == (2, 10, "this byte is not UTF-8")


def test_a_byte_order_mark_and_other_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfversion: 1\r\nname: x\r\n")
    found = read(path, Interpolation({}))
    assert found.tree == {"version": 1, "name": "x"}
    assert found.marks.key(("name",)).line == 2


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"#" * (LARGEST_FILE + 1))
    assert [one.fact for one in read(path, Interpolation({})).problems] == ["the file is larger than 4 MiB"]


def test_a_file_with_an_impossible_name_is_not_read() -> None:
    (problem,) = read(Path("a\x00b"), Interpolation({})).problems
    assert problem.fact.startswith("the file cannot be read")


@for_each(
    ("text", "value"),
    [
        ("true", True), ("False", False), ("", None), ("~", None), ("null", None), ("0", 0), ("-12", -12), ("+7", 7),
        ("1.5", 1.5), ("0.3", 0.3), ("no", "no"), ("010", "010"), ("1e3", "1e3"), ("12:30", "12:30"), ("-", "-"),
        ("2027-06-30", "2027-06-30"), ("127.0.0.1:8080", "127.0.0.1:8080"), ("9" * 19, "9" * 19), (".5", ".5"),
    ],
)  # fmt: skip
def test_a_plain_word_is_a_boolean_nothing_a_decimal_number_or_text(text: str, value: Value) -> None:
    assert plain(text) == value
    assert type(plain(text)) is type(value)


@for_each(
    "text",
    ["no", "Yes", "ON", "off", "y", "N", "tRUE", "nULL", "010", "08", "0o17", "0x1F", "0b1", "1_000", "1e3", "1.", ".5",
     "-.5", ".inf", "-.INF", ".nan", "12:30", "1:2:3.5", "=", "9" * 19, "1.5e3"],
)  # fmt: skip
def test_a_word_that_other_tools_read_as_something_else_is_a_surprise(text: str) -> None:
    told = surprise(text)
    assert told is not None
    assert f'"{text}"' in told[1]


@for_each("text", ["9" * 19, "-1" + "0" * 18, "1" + "0" * 5000])
def test_a_number_with_too_many_digits_is_not_told_to_be_written_in_digits(text: str) -> None:
    told = surprise(text)
    assert told is not None
    assert told[1].endswith("or write a number of at most 18 digits")


@for_each(
    "text",
    ["2027-06-30", "127.0.0.1", "10.0.0.0/8", "1.0.0", "acme", "nobody", "yes-men", "10MiB", "3s", "a:b", "-", "."],
)
def test_a_word_that_all_tools_read_as_text_is_none(text: str) -> None:
    assert surprise(text) is None


def test_a_reference_that_braces_tore_apart_is_recognised() -> None:
    (problem,) = source("a: { b: ${C} }").problems
    assert problem.remedy == 'inside { } and [ ] a reference needs quotes: "${VAR}"'
