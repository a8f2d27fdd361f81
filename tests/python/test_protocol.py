"""Lines that the benchmark executable may and may not say."""

from __future__ import annotations

import json

import pytest

from gpuheap.formats.protocol import Begin, Measurement, ProtocolError, Result, cuda_version, parse_description, parse_event

OK = {"point": 2, "status": "ok", "reason": "", "rows": [{"metric": "malloc_us", "unit": "us", "samples": [1, 2.5]}]}


def test_begin() -> None:
    assert parse_event('{"begin":3}') == Begin(3)


def test_result() -> None:
    event = parse_event(json.dumps(OK))
    assert isinstance(event, Result)
    assert event.result.measurements == (Measurement("malloc_us", "us", (1.0, 2.5)),)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"status": "fine"}, "status is 'fine'"),
        ({"status": "crash"}, "status is 'crash'"),
        ({"rows": []}, "ok without any row"),
        ({"rows": [{"metric": "speed", "unit": "us", "samples": [1]}]}, "unknown metric 'speed'"),
        ({"rows": [{"metric": "malloc_us", "unit": "ms", "samples": [1]}]}, "malloc_us is in us, not in 'ms'"),
        ({"rows": [{"metric": "malloc_us", "unit": "us", "samples": []}]}, "no samples"),
        ({"rows": [{"metric": "malloc_us", "unit": "us", "samples": ["1"]}]}, "not a finite number"),
        ({"rows": [{"metric": "malloc_us", "unit": "us"}]}, "a row without samples"),
        ({"rows": OK["rows"] * 2}, "a metric comes twice"),  # type: ignore[operator]
        ({"point": -1}, "-1 is not the number of a point"),
        ({"point": None}, "None is not the number of a point"),
    ],
)
def test_what_the_protocol_does_not_allow(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        parse_event(json.dumps({**OK, **change}))


@pytest.mark.parametrize("line", ["", "{", "[1]", '{"start": 1}', "NaN"])
def test_lines_that_are_nothing(line: str) -> None:
    with pytest.raises(ProtocolError):
        parse_event(line)


def test_infinite_samples_are_refused() -> None:
    with pytest.raises(ProtocolError, match="not a finite number"):
        parse_event('{"point":0,"status":"ok","rows":[{"metric":"malloc_us","unit":"us","samples":[Infinity]}]}')


def test_description_without_a_device() -> None:
    text = '{"backend":"cuda","device":null,"device_error":"no device","allocators":[{"name":"sharded_spans","later_trait":1}],"cases":[]}'
    description = parse_description(text)
    assert description.device is None
    assert description.device_error == "no device"
    assert description.allocators[0].name == "sharded_spans"


@pytest.mark.parametrize("text", ["", "{}", '{"backend":"simulator"}', '{"backend":"simulator","allocators":[{}],"cases":[]}', '{"backend":"gpu"}'])
def test_descriptions_that_lack_something(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse_description(text)


def test_versions_as_the_cuda_api_counts_them() -> None:
    assert [cuda_version(v) for v in (13000, 12040, "13.1", None, 0)] == ["13.0", "12.4", "13.1", "", ""]
