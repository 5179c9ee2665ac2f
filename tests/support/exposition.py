"""The series of one metric, read from the text that Prometheus scrapes."""

from prometheus_client.parser import text_string_to_metric_families


def series(text: str, name: str) -> list[tuple[dict[str, str], float]]:
    """Return every series of the metric `name` with its value; the prefix is added.

    Only its own lines are parsed: a gateway has hundreds, and tests read one metric at a time.
    """
    full = "a2a_gateway_" + name
    own = "\n".join(line for line in text.split("\n") if line.startswith((full + "{", full + " ")))
    return [
        (dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(own + "\n")
        for sample in family.samples
    ]


def total(text: str, name: str, **labels: str) -> float:
    """Return the sum of a metric's series that have these labels."""
    return sum(value for found, value in series(text, name) if labels.items() <= found.items())
