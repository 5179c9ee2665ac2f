"""Allowed origins are written as browsers send them, or the file is refused."""

from tests.config.reading import errors, examined, good
from tests.table import for_each

REST = "agents: { a: http://127.0.0.1:1 }\n"


def cors(entry: str) -> str:
    return f"version: 1\ngateway: {{ cors: {{ {entry} }} }}\n{REST}"


@for_each(
    "entry",
    [
        "origins: ['https://console.example.com']",
        "origins: 'http://localhost:3000'",
        "origins: ['http://[::1]:3000', 'http://127.0.0.1', 'https://a.test:8443'], credentials: true",
        "origins: ['*']",
        "origins: '*', headers: [X-Region], max_age: 0s",
    ],
)
def test_origins_as_browsers_write_them_are_fine(entry: str) -> None:
    assert errors(cors(entry)) == []


@for_each(
    ("origin", "remedy"),
    [
        ("https://Console.example.com", "write https://console.example.com"),
        ("https://a.test/", "write https://a.test"),
        ("https://a.test/app", "write https://a.test"),
        ("https://a.test:443", "write https://a.test"),
        ("http://[::1]:80", "write http://[::1]"),
        ("https://a.test:08443", "write https://a.test:8443"),
        ("HTTPS://a.test", "write https://a.test"),
        ("a.test", "write it as https://host[:port], as browsers send it"),
        ("ftp://a.test", "write it as https://host[:port], as browsers send it"),
        ("https://*.a.test", "write it as https://host[:port], as browsers send it"),
        ("https://u:p@a.test", "write it as https://host[:port], as browsers send it"),
        ("https://a.test?x", "write it as https://host[:port], as browsers send it"),
        ("https://ä.test", "write it as https://host[:port], as browsers send it"),
        ("https://a.test https://b.test", "write it as https://host[:port], as browsers send it"),
        ("", "write it as https://host[:port], as browsers send it"),
        ("null", "serve the page from an origin of its own, and name that"),
    ],
)
def test_an_origin_that_no_browser_would_send_is_refused(origin: str, remedy: str) -> None:
    [problem] = examined(cors(f"origins: ['https://good.test', '{origin}']")).errors
    assert problem.path == ("gateway", "cors", "origins", 1)
    assert problem.remedy == remedy


def test_any_origin_gets_no_credentials() -> None:
    assert [path for path, _ in errors(cors("origins: '*', credentials: true"))] == ["gateway.cors.credentials"]
    assert [path for path, _ in errors(cors("origins: ['*', 'https://a.test']"))] == ["gateway.cors.origins"]
    assert good(cors("origins: 'https://a.test', credentials: true")).gateway.cors is not None


def test_an_empty_list_of_origins_is_refused() -> None:
    assert [fact for _, fact in errors(cors("origins: []"))] == ["no origin may call"]


@for_each("name", ["*", "X Region", "", "X_Region", "Cookie", "Sec-Fetch-Mode", "proxy-x", "te", "Host"])
def test_a_header_that_no_page_sends_is_refused(name: str) -> None:
    [(path, _)] = errors(cors(f"origins: 'https://a.test', headers: [X-Region, '{name}']"))
    assert path == "gateway.cors.headers[1]"
