"""No input ends in a stack trace: a diagnosis, or an error that tells what is wrong."""

import json
import tempfile
from pathlib import Path

from doctor_cases import diagnosed
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhf_ray.doctor.findings import Diagnosis
from rlhf_ray.doctor.report import as_json, as_text
from rlhf_ray.errors import DataError

NAMES = st.sampled_from(
    [
        "step",
        "stage",
        "objective/kl",
        "objective/scores",
        "eval/gold_score",
        "loss/policy_avg",
        "kl",
        "Mean Reward",
        "x",
    ]
)
NUMBERS = st.one_of(st.floats(), st.integers(), st.integers(min_value=10**308, max_value=10**310), st.booleans())
CELLS = st.one_of(
    NUMBERS, st.none(), st.text(max_size=6), st.sampled_from(["NaN", "inf", "-Infinity", "1e3", "7 of 10"])
)
NESTED = st.recursive(
    CELLS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=5
)
ROWS = st.lists(st.dictionaries(NAMES, NESTED, max_size=6), max_size=12)
FILE_NAMES = st.sampled_from(["a.jsonl", "a.csv", "a.json", "a.wandb", "events.out.tfevents.1", "a.parquet", "a"])


def told(name: str, content: bytes) -> str:
    """The report, or the error's words."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            return shown(diagnosed(path))
        except DataError as error:
            return str(error)


def shown(diagnosis: Diagnosis) -> str:
    json.dumps(as_json(diagnosis), allow_nan=False)
    return as_text(diagnosis, width=100)


@given(name=FILE_NAMES, content=st.binary(max_size=400))
def test_any_bytes(name: str, content: bytes) -> None:
    assert told(name, content)


@given(name=FILE_NAMES, content=st.text(max_size=400))
def test_any_text(name: str, content: str) -> None:
    assert told(name, content.encode("utf-8", errors="surrogatepass"))


@given(rows=ROWS)
def test_any_json_rows(rows: list[dict[str, object]]) -> None:
    assert told("a.jsonl", "\n".join(json.dumps(row) for row in rows).encode())
    assert told("a.json", json.dumps({"log_history": rows}).encode())


@given(rows=ROWS, end=st.integers(min_value=0, max_value=60))
def test_any_cut(rows: list[dict[str, object]], end: int) -> None:
    content = "\n".join(json.dumps(row) for row in rows).encode()
    assert told("a.jsonl", content[: len(content) - end])


@settings(max_examples=60)
@given(table=st.lists(st.lists(st.one_of(NUMBERS.map(str), st.text(max_size=5)), max_size=5), max_size=10))
def test_any_table(table: list[list[str]]) -> None:
    rows = [",".join(cell.replace(",", "") for cell in row) for row in table]
    text = "\n".join(["step,kl,Mean Reward,Evaluation Score,Policy Loss", *rows])
    assert told("a.csv", text.encode("utf-8", errors="surrogatepass"))


@given(columns=st.dictionaries(NAMES, st.lists(NUMBERS, min_size=8, max_size=8), min_size=1))
def test_any_numbers_in_known_columns(columns: dict[str, list[float]]) -> None:
    rows = [{name: values[i] for name, values in columns.items()} for i in range(8)]
    assert told("a.jsonl", "\n".join(json.dumps(row) for row in rows).encode())
