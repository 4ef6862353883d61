"""Every format gives the same log; what is odd about one is told."""

import gzip
import json
import os
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf.message import Message
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from wandb.proto.wandb_internal_pb2 import Record

from rlhf_ray.doctor.readers.detect import read_log
from rlhf_ray.doctor.readers.wandb_file import records
from rlhf_ray.doctor.runlog import RunLog
from rlhf_ray.errors import DataError

ROWS = [{"step": i, "objective/kl": 0.5 * i, "objective/scores": 1.0 + i} for i in range(1, 6)]
KL = [0.5, 1.0, 1.5, 2.0, 2.5]


def kl_of(log: RunLog) -> list[float]:
    return log.stages[-1].get("objective/kl").values.tolist()


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def lines(rows: list[dict[str, float]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(rows: list[dict[str, float]], separator: str) -> str:
    head = separator.join(rows[0])
    return "\n".join([head, *(separator.join(str(cell) for cell in row.values()) for row in rows)]) + "\n"


def event_file(folder: Path, rows: list[dict[str, float]], *, tensors: bool) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    writer = EventFileWriter(str(folder))
    for row in rows:
        summary = Summary()
        for name, number in row.items():
            if name != "step":
                value = summary.value.add(tag=name)
                if tensors:
                    value.tensor.dtype = 1
                    value.tensor.tensor_content = struct.pack("<f", number)
                else:
                    value.simple_value = number
        writer.add_event(Event(step=int(row["step"]), summary=summary))
    writer.close()
    return next(folder.iterdir())


def wandb_bytes(messages: list[Message]) -> bytes:
    """LevelDB's log framing: fragments of at most what is left of a block of 32 KiB."""
    content = b":W&B" + b"\xe1\xbe\x00"
    for message in messages:
        data, first = message.SerializeToString(), True
        while data or first:
            left = 32768 - len(content) % 32768
            if left < 7:
                content += b"\0" * left
                left = 32768
            part, data = data[: left - 7], data[left - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[(first, not data)]
            content += b"\0\0\0\0" + len(part).to_bytes(2, "little") + bytes([kind]) + part
            first = False
    return content


def wandb_records(rows: list[dict[str, float]], config: dict[str, object]) -> list[Message]:
    made = []
    settings = Record()
    for name, value in config.items():
        settings.run.config.update.add(key=name, value_json=json.dumps(value))
    made.append(settings)
    for row in rows:
        record = Record()
        record.history.step.num = int(row["step"])
        for name, value in row.items():
            record.history.item.add(nested_key=name.split("/"), value_json=json.dumps(value))
        made.append(record)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", lines(ROWS)),
        ("rows.json", json.dumps(ROWS)),
        ("indented.json", json.dumps(ROWS, indent=2)),
        ("columns.json", json.dumps({name: [row[name] for row in ROWS] for name in ROWS[0]})),
        ("pandas.json", json.dumps({name: {str(i): row[name] for i, row in enumerate(ROWS)} for name in ROWS[0]})),
        ("history.json", json.dumps({"history": ROWS})),
        ("trainer_state.json", json.dumps({"log_history": [*ROWS, {"step": 5, "train_runtime": 9, "train_loss": 1}]})),
        ("a.csv", table(ROWS, ",")),
        ("a.tsv", table(ROWS, "\t")),
        ("a.txt", table(ROWS, ";")),
        ("a.md", "| step | objective/kl |\n|---|---|\n" + "".join(f"| {i} | {0.5 * i} |\n" for i in range(1, 6))),
        ("bom.csv", "\ufeff" + table(ROWS, ",")),
    ],
)
def test_text_formats_are_told_by_their_content(folder: Path, name: str, text: str) -> None:
    assert kl_of(read_log(written(folder / name, text), {})) == KL


def test_parquet_is_read(folder: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "history.parquet")
    assert kl_of(read_log(folder / "history.parquet", {})) == KL


@pytest.mark.parametrize("tensors", [False, True])
def test_tensorboard_scalars_are_read(folder: Path, tensors: bool) -> None:  # noqa: FBT001  a parameter of the test
    event_file(folder / "events", ROWS, tensors=tensors)
    assert kl_of(read_log(folder / "events", {})) == KL


def test_a_cut_event_file_gives_what_is_whole(folder: Path) -> None:
    path = event_file(folder / "events", ROWS, tensors=False)
    path.write_bytes(path.read_bytes()[:-20])
    assert kl_of(read_log(path, {})) == KL[:-1]


def test_of_several_event_folders_the_largest_is_read_and_named(folder: Path) -> None:
    event_file(folder / "a", ROWS[:2], tensors=False)
    event_file(folder / "b", ROWS, tensors=False)
    log = read_log(folder, {})
    assert kl_of(log) == KL
    assert any(note.startswith(f"read: {folder / 'b'}, the largest of 2 logs below") for note in log.notes)


def test_a_wandb_file_gives_history_and_settings(folder: Path) -> None:
    config = {"kl_coef": {"value": 0.05}, "text": "long " * 20000}  # longer than a block
    (folder / "run-1.wandb").write_bytes(wandb_bytes(wandb_records(ROWS, {"kl_coef": 0.05, "text": config["text"]})))
    log = read_log(folder, {})
    assert kl_of(log) == KL
    assert log.settings["algorithm.kl_coef"] == 0.05


def test_a_cut_wandb_file_gives_what_is_whole(folder: Path) -> None:
    content = wandb_bytes(wandb_records(ROWS, {}))
    (folder / "a.wandb").write_bytes(content[:-5])
    assert kl_of(read_log(folder / "a.wandb", {})) == KL[:-1]


def test_fragments_over_block_ends_are_put_together() -> None:
    (record,) = wandb_records([{"step": 1.0}], {})[1:]
    record.history.item.add(key="filler", value_json='"' + "x" * 100_000 + '"')
    assert list(records(wandb_bytes([record]))) == [record.SerializeToString()]


def test_our_run_directory_gives_stages_and_settings(folder: Path) -> None:
    rows = [{"stage": "sft", "step": 10, "sft/loss": 2.0}, {"stage": "ppo", "step": 1, "objective/kl": 0.0}]
    written(folder / "metrics.jsonl", lines(rows))  # type: ignore[arg-type]  # a stage is text
    run = {"config": {"learning_rate": 3e-6, "algorithm": {"kl_coef": 0.05, "learning_rate": None}}}
    written(folder / "run.json", json.dumps(run))
    log = read_log(folder, {})
    assert [stage.stage for stage in log.stages] == ["sft", "ppo"]
    assert log.settings["algorithm.kl_coef"] == 0.05
    assert log.settings["algorithm.learning_rate"] == 3e-6


def test_the_latest_trainer_state_of_a_folder_is_read(folder: Path) -> None:
    for step in (2, 5):
        (folder / f"checkpoint-{step}").mkdir()
        written(folder / f"checkpoint-{step}" / "trainer_state.json", json.dumps({"log_history": ROWS[:step]}))
    assert kl_of(read_log(folder, {})) == KL


def test_train_and_evaluation_rows_of_one_step_are_one_step(folder: Path) -> None:
    rows = [{"step": 1, "loss": 2.0}, {"step": 1, "eval_loss": 2.1}, {"step": 2, "loss": 1.9}]
    (stage,) = read_log(written(folder / "a.jsonl", lines(rows)), {}).stages
    assert stage.get("sft/loss").values.tolist() == [2.0, 1.9]
    assert stage.get("sft/val_loss").values.tolist() == [2.1]


def test_of_steps_written_twice_the_last_counts_and_that_is_told(folder: Path) -> None:
    log = read_log(written(folder / "a.jsonl", lines([*ROWS[:4], {"step": 3, "objective/kl": 9.0}])), {})
    assert kl_of(log) == [0.5, 1.0, 9.0, 2.0]
    assert "1 steps were written more than once (a resumed run): the last value counts" in log.notes


def test_unsorted_steps_are_sorted_and_that_is_told(folder: Path) -> None:
    log = read_log(written(folder / "a.jsonl", lines([ROWS[2], ROWS[0], ROWS[1], ROWS[4], ROWS[3]])), {})
    assert kl_of(log) == KL
    assert "steps are not in order: sorted" in log.notes


def test_rows_without_a_step_are_left_out_and_counted(folder: Path) -> None:
    made = [*ROWS * 4, {"objective/kl": 99.0}]
    log = read_log(written(folder / "a.jsonl", lines(made)), {})
    assert 99.0 not in kl_of(log)
    assert "1 rows have no step: left out" in log.notes


def test_a_cut_last_line_is_left_out(folder: Path) -> None:
    log = read_log(written(folder / "a.jsonl", lines(ROWS)[:-12]), {})
    assert kl_of(log) == KL[:-1]
    assert "line 5 (the last) is cut: left out" in log.notes


def test_text_in_a_number_column_is_counted_and_shown(folder: Path) -> None:
    log = read_log(written(folder / "a.csv", "step,kl,reward\n1,0.5,x\n2,low,1\n3,1.5,2\n"), {})
    assert kl_of(log) == [0.5, 1.5]
    assert "kl: 1 cells are not numbers ('low'): left out" in log.notes


def test_zeros_that_a_crash_left_in_a_file_are_passed_over(folder: Path) -> None:
    (folder / "a.csv").write_bytes(b"step,the divergence,kl\n1,,0.5\n2,,1.0\n3,,\0\0\0" + b"1.5\n")
    assert kl_of(read_log(folder / "a.csv", {})) == KL[:3]
    (folder / "a.jsonl").write_bytes(lines(ROWS).encode() + b"\0" * 20)
    assert kl_of(read_log(folder / "a.jsonl", {})) == KL


def test_a_gap_is_told(folder: Path) -> None:
    rows = [*ROWS, {"step": 60, "objective/kl": 3.0}]
    assert (
        "ppo: nothing was logged between steps 5 and 60" in read_log(written(folder / "a.jsonl", lines(rows)), {}).notes
    )


def test_without_a_step_column_rows_are_numbered(folder: Path) -> None:
    log = read_log(written(folder / "a.csv", "kl,reward\n0.5,1\n1.0,2\n"), {})
    assert log.stages[0].steps.tolist() == [1, 2]
    assert "no column counts steps: rows are numbered from 1" in log.notes


def test_mixed_stages_of_a_log_without_tags_are_told_apart_by_their_names(folder: Path) -> None:
    rows = [{"step": 1, "sft/loss": 2.0}, {"step": 1, "reward_model/loss": 0.7}, {"step": 1, "objective/kl": 0.0}]
    log = read_log(written(folder / "a.jsonl", lines(rows)), {})
    assert [stage.stage for stage in log.stages] == ["sft", "reward_model", "ppo"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"step,kl\n", "has no rows"),
        (b"1,2,3\n4,5,6\n", "it must name the columns"),
        (b"step,colour,weight\n1,2,3\n", "has no known column: colour, weight. Say what one is: --map"),
        (b"step,kl\n1,low\n2,high\n", "has no known column with a number"),
        (b"step,kl\n1,low\n2,high\n", "Text where numbers are looked for: kl ('low')"),
        (b'step,kl\n1,"an open quote\n2,3\n3,4\n', "kl ('an open quote"),
        (b",".join(b"c%d" % i for i in range(20_001)) + b"\n" + b"1," * 20_000 + b"1\n", "has 20001 columns"),
        (b"stage,note\na,b\n", "has no number in any of its 1 rows"),
        (b"hello\nworld\n", "is none of the formats that are read"),
        (b"\x00\x01\x02\xff" * 100, "is binary"),
        (b"\xfa\xfb\xfc\xfd" * 100, "is binary"),
        (gzip.compress(b"step,kl\n1,2\n"), "is compressed: unpack it first (gunzip)"),
        (b"PK\x03\x04 a spreadsheet", "or save the sheet as CSV"),
        ("step,kl\n1,2\n".encode("utf-16"), "is text in UTF-16: save it as UTF-8"),
        (b"{\n", "not a JSON object"),
        (b"[1, 2, 3]", "must hold objects"),
        (b'{"a": [1, 2], "b": [1]}', "columns of different lengths"),
        (b"PAR1junk", "cannot be read as Parquet"),
        (b":W&B\xe1\xbe\x00junk", "holds no history"),
        (b"[" * 100_000, "not a JSON object"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(folder: Path, content: bytes, words: str) -> None:
    (folder / "log").write_bytes(content)
    with pytest.raises(DataError, match="log") as caught:
        read_log(folder / "log", {})
    assert words in str(caught.value)


@pytest.mark.parametrize(("name", "words"), [("nothing", "does not exist"), (".", "holds no log; looked for run.json")])
def test_a_path_without_a_log_is_refused(folder: Path, name: str, words: str) -> None:
    with pytest.raises(DataError) as caught:
        read_log(folder / name, {})
    assert words in str(caught.value)


def test_of_several_runs_in_a_folder_the_largest_is_read_with_its_settings_and_named(folder: Path) -> None:
    for name, count in (("a", 5), ("b", 2)):
        (folder / name).mkdir()
        written(folder / name / "metrics.jsonl", lines(ROWS[:count]))
        written(folder / name / "run.json", json.dumps({"config": {"algorithm": {"kl_coef": 0.3}}}))
    log = read_log(folder, {})
    assert kl_of(log) == KL
    assert log.settings["algorithm.kl_coef"] == 0.3
    assert log.notes == (
        f"read: {folder / 'a' / 'metrics.jsonl'}, the largest of 2 logs below {folder}; not read: b/metrics.jsonl",
    )


def test_a_pipe_is_refused_at_once(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(DataError, match="is a pipe or a device; write what comes out of it to a file"):
        read_log(folder / "pipe", {})


def test_links_in_a_circle_are_no_log_and_no_trap(folder: Path) -> None:
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "inside").symlink_to(folder)
    with pytest.raises(DataError, match="loop does not exist"):
        read_log(folder / "loop", {})
    with pytest.raises(DataError, match="holds no log"):
        read_log(folder, {})


def test_garbage_named_like_an_event_file_is_refused(folder: Path) -> None:
    (folder / "events.out.tfevents.1").write_bytes(b"\x07" * 500)
    with pytest.raises(DataError, match="holds no scalar"):
        read_log(folder, {})
