import pytest

from rlhf_ray.files.digest import FileEntry, damages, file_digest, folder_digest, folder_entries, json_digest

# echo -n abc | sha256sum
ABC = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "sub" / "b").write_bytes(b"defg")
    return tmp_path


def test_file_digest_is_what_sha256sum_prints(folder):
    assert file_digest(folder / "a") == ABC


def test_entries_name_every_file_with_its_size_except_the_excluded(folder):
    entries = folder_entries(folder, exclude={"sub/b"})
    assert entries == {"a": FileEntry(size=3, digest=ABC)}
    assert list(folder_entries(folder, exclude=())) == ["a", "sub/b"]


def test_folder_digest_sees_content_names_and_additions_but_not_excluded_files(folder):
    def digest() -> str:
        return folder_digest(folder, exclude={"card"})

    seen = [digest()]
    (folder / "card").write_text("not part of the content")
    assert digest() == seen[0]
    (folder / "a").write_bytes(b"abd")
    seen.append(digest())
    (folder / "a").rename(folder / "c")
    seen.append(digest())
    (folder / "empty").touch()
    seen.append(digest())
    assert len(set(seen)) == 4


def test_folder_digest_does_not_depend_on_the_order_files_were_made(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "sub").mkdir()
    (other / "sub" / "b").write_bytes(b"defg")
    (other / "a").write_bytes(b"abc")
    assert folder_digest(other, exclude=()) == folder_digest(folder, exclude=())


def test_json_digest_ignores_key_order_and_sees_values():
    assert json_digest({"a": 1, "b": [0.1]}) == json_digest({"b": [0.1], "a": 1})
    assert json_digest({"a": 1}) != json_digest({"a": 2})


def test_each_kind_of_damage_is_named(folder):
    expected = folder_entries(folder, exclude=())
    assert damages(folder, expected) == []
    (folder / "a").write_bytes(b"abd")
    (folder / "sub" / "b").write_bytes(b"d")
    changed, cut = damages(folder, expected)
    assert changed.startswith("a has other content (sha256:")
    assert cut == "sub/b has 1 bytes instead of 4"
    (folder / "a").unlink()
    assert damages(folder, expected)[0] == "a is missing"
