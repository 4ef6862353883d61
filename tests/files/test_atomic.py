import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_ray.files.atomic import replace_folder, replaced_atomically, write_json_atomic, write_text_atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_replaces_what_was_there_and_leaves_nothing_beside(tmp_path):
    write_text_atomic(tmp_path / "note", "old")
    write_text_atomic(tmp_path / "note", "größer")
    assert (tmp_path / "note").read_text(encoding="utf-8") == "größer"
    assert names(tmp_path) == ["note"]


def test_a_file_written_atomically_has_the_permissions_of_an_ordinary_one(tmp_path):
    (tmp_path / "ordinary").write_text("x")
    write_text_atomic(tmp_path / "atomic", "x")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_an_error_while_writing_keeps_the_old_file(tmp_path):
    write_text_atomic(tmp_path / "note", "old")

    def write_half() -> None:
        with replaced_atomically(tmp_path / "note") as temporary:
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert (tmp_path / "note").read_text() == "old"
    assert names(tmp_path) == ["note"]


def test_a_file_size_limit_keeps_the_old_file(tmp_path):
    write_text_atomic(tmp_path / "note", "old")
    code = (
        "import sys; from pathlib import Path; from rlhf_ray.files.atomic import write_text_atomic\n"
        "write_text_atomic(Path(sys.argv[1]), 'x' * 10_000)"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "note"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        capture_output=True,
        text=True,
    )
    assert "File too large" in child.stderr
    assert (tmp_path / "note").read_text() == "old"
    assert names(tmp_path) == ["note"]


def test_json_is_indented_and_ends_with_a_newline(tmp_path):
    write_json_atomic(tmp_path / "a.json", {"b": [1, None]})
    assert (tmp_path / "a.json").read_text() == '{\n  "b": [\n    1,\n    null\n  ]\n}\n'


def test_json_refuses_nan_and_keeps_the_old_file(tmp_path):
    write_json_atomic(tmp_path / "a.json", 1)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json_atomic(tmp_path / "a.json", {"b": float("nan")})
    assert (tmp_path / "a.json").read_text() == "1\n"


def test_a_folder_takes_the_place_of_another(tmp_path):
    for name, content in (("new", "2"), ("final", "1")):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file").write_text(content)
    (tmp_path / "final" / "stale").write_text("gone with the old one")
    replace_folder(tmp_path / "new", tmp_path / "final")
    assert names(tmp_path) == ["final"]
    assert names(tmp_path / "final") == ["deep"]
    assert (tmp_path / "final" / "deep" / "file").read_text() == "2"


def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="no regular file"):
        write_text_atomic(fifo, "text")
    assert fifo.is_fifo()
    with pytest.raises(OSError, match="no regular file"):
        write_text_atomic(tmp_path, "text")
