"""The same rows come back from every format, with their numbers."""

import shutil
from pathlib import Path

import pytest

from rlhf_ray.config.data import DataConfig
from rlhf_ray.data.layout import layout_of
from rlhf_ray.data.read import read_preferences, read_prompts
from rlhf_ray.data.sources import numbered_rows
from rlhf_ray.errors import DataError

ROWS = [{"prompt": f"Name colour {i}.", "extra": None if i % 2 else [i]} for i in range(2500)]


def write_parquet(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=700)


def write_arrow_file(path):
    import pyarrow as pa

    table = pa.Table.from_pylist(ROWS)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1500)


def write_arrow_stream(path):
    import pyarrow as pa

    table = pa.Table.from_pylist(ROWS)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def write_saved_data_set(path):
    import datasets

    datasets.Dataset.from_list(ROWS).save_to_disk(path, num_shards=3)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("rows.parquet", write_parquet),
        ("rows.arrow", write_arrow_file),
        ("rows.feather", write_arrow_stream),
        ("saved", write_saved_data_set),
    ],
)
def test_tables_give_their_rows_in_order_counted_from_one(tmp_path, name, write):
    write(tmp_path / name)
    rows = list(numbered_rows(tmp_path / name))
    assert [row.line for row in rows] == list(range(1, 2501))
    assert [row.value for row in rows] == ROWS


def test_a_cut_parquet_file_is_refused_by_name(tmp_path):
    write_parquet(tmp_path / "rows.parquet")
    whole = (tmp_path / "rows.parquet").read_bytes()
    (tmp_path / "rows.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"rows\.parquet: not readable as parquet"):
        list(numbered_rows(tmp_path / "rows.parquet"))


@pytest.fixture
def data_set(tmp_path, monkeypatch):
    """A data set of two splits in a directory, and a cache of its own."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "colours"
    datasets.Dataset.from_list(ROWS).to_parquet(folder / "train.parquet")
    datasets.Dataset.from_list(ROWS[:3]).to_parquet(folder / "test.parquet")
    return folder


@pytest.mark.parametrize(
    ("split", "rows"), [("", ROWS), (":train", ROWS), (":test", ROWS[:3]), (":train[:7]", ROWS[:7])]
)
def test_a_data_set_is_read_by_its_path_and_split(data_set, split, rows):
    found = list(numbered_rows(Path(f"hf:{data_set}{split}")))
    assert [row.line for row in found] == list(range(1, len(rows) + 1))
    assert [row.value for row in found] == rows


def test_a_data_set_of_the_hub_that_was_loaded_before_is_read_by_name_without_network(data_set, tmp_path):
    """Under OWNER___NAME the package keeps what it downloaded, in the form that it gives local data, too."""
    list(numbered_rows(Path(f"hf:{data_set}")))
    (tmp_path / "cache" / "colours").rename(tmp_path / "cache" / "somebody___colours")
    shutil.rmtree(data_set)
    assert [row.value for row in numbered_rows(Path("hf:somebody/colours"))] == ROWS
    assert [row.value for row in numbered_rows(Path("hf:somebody/colours:test"))] == ROWS[:3]
    with pytest.raises(DataError, match=r"hf:somebody/shapes: cannot be loaded"):
        list(numbered_rows(Path("hf:somebody/shapes")))


@pytest.fixture
def data_set_of_two(data_set, tmp_path):
    """A data set of two configurations, loaded once from a directory that is gone."""
    import datasets

    folder = tmp_path / "trees"
    for name, rows in (("few", ROWS[:2]), ("many", ROWS)):
        datasets.Dataset.from_list(rows).to_parquet(folder / name / "train.parquet")
    listed = "".join(f"- config_name: {name}\n  data_files: {name}/train.parquet\n" for name in ("few", "many"))
    (folder / "README.md").write_text(f"---\nconfigs:\n{listed}---\n")
    for name in ("few", "many"):
        list(numbered_rows(Path(f"hf:{folder}:{name}:train")))
    (tmp_path / "cache" / "trees").rename(tmp_path / "cache" / "somebody___trees")
    shutil.rmtree(folder)
    return "hf:somebody/trees"


@pytest.mark.parametrize(
    ("words", "rows"), [(":few:train", ROWS[:2]), (":many:train", ROWS), (":many:train[:7]", ROWS[:7])]
)
def test_a_configuration_of_a_data_set_is_read_by_its_name(data_set_of_two, words, rows):
    assert [row.value for row in numbered_rows(Path(f"{data_set_of_two}{words}"))] == rows


@pytest.mark.parametrize("words", ["", ":train"])
def test_a_data_set_of_several_configurations_needs_the_name_of_one(data_set_of_two, words):
    with pytest.raises(DataError, match=r"few, many[^;]*; accepted: hf:NAME, .* or hf:NAME:CONFIGURATION:SPLIT"):
        list(numbered_rows(Path(f"{data_set_of_two}{words}")))


@pytest.mark.parametrize("name", ["hf:", "hf::train", "hf:trees::train", "hf:trees:few:", "hf:trees:few:train:more"])
def test_a_name_with_missing_or_too_many_parts_is_refused(name):
    with pytest.raises(DataError, match=f"{name} names no data set; accepted: hf:NAME, "):
        list(numbered_rows(Path(name)))


def test_the_prompts_of_a_data_set_are_rows_like_any_others(data_set):
    source = Path(f"hf:{data_set}:test")
    prompts = read_prompts(source, layout=layout_of(DataConfig()), on_bad_row="error")
    assert [(row.id, row.prompt) for row in prompts] == [(str(i + 1), f"Name colour {i}.") for i in range(3)]


def test_an_unknown_split_is_refused_by_name(data_set):
    source = Path(f"hf:{data_set}:tets")
    with pytest.raises(DataError, match=r"colours:tets: cannot be loaded: Unknown split \"tets\""):
        list(numbered_rows(source))


def test_an_unknown_data_set_is_refused_by_name(tmp_path):
    with pytest.raises(DataError, match=r"hf:nobody/nothing: cannot be loaded"):
        list(numbered_rows("hf:nobody/nothing"))


def test_nulls_of_a_table_are_bad_values_not_text(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"prompt": ["a", None], "chosen": ["b", "c"], "rejected": ["d", "e"]})
    pq.write_table(table, tmp_path / "p.parquet")
    rows = read_preferences(tmp_path / "p.parquet", layout=layout_of(DataConfig()), on_bad_row="skip")
    assert [row.id for row in rows] == ["1"]
    assert rows.report.faults[0].reason == '"prompt" is null; accepted: a non-empty string'


def test_rows_are_read_anew_by_every_iteration(tmp_path):
    write_parquet(tmp_path / "rows.parquet")
    rows = read_prompts(tmp_path / "rows.parquet", layout=layout_of(DataConfig()), on_bad_row="error")
    assert rows.count() == rows.count() == 2500
