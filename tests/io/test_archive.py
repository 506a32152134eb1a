"""Files in one step, and archives of any kind."""

import os
import stat
import threading
import time

import numpy as np
import pytest
from tests.cases.model_file_cases import MODELS

from maxmargin import load_model, save_model
from maxmargin._utils import replacing
from maxmargin.io import read_archive, write_archive


def test_writing_in_one_step(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)

    def fail():
        with replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]
    with replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_was_left_behind_is_swept(tmp_path):
    """A run that was killed leaves a temporary behind; the next one takes it away, but not those that may be in use."""
    path, hour = tmp_path / "file", 3600
    kept = [".file.0123456789ab.tmp", ".file.other.tmp", ".file2.0123456789ab.tmp", "file.0123456789ab.tmp", ".file.mine.tmp.old"]
    swept = [".file.ba9876543210.tmp", ".file.000000000000.tmp"]
    for name, age in [(kept[0], hour // 2), *((name, 10 * hour) for name in kept[1:]), *((name, 2 * hour) for name in swept)]:
        (tmp_path / name).write_bytes(b"part")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    with replacing(path) as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "file"]) and path.read_bytes() == b"new"


def test_mode_links_and_places(tmp_path):
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "new") as file:
            file.write(b"x")
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    finally:
        os.umask(before)
    (tmp_path / "link").symlink_to("new")
    with replacing(tmp_path / "link") as file:
        file.write(b"through the link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "new").read_bytes() == b"through the link"
    with replacing("/dev/null") as file:
        file.write(b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    for place, error in (("none/file", FileNotFoundError), (".", IsADirectoryError)):
        with pytest.raises(error, match="folder"), replacing(tmp_path / place):
            pass
    with pytest.raises(FileNotFoundError, match="its folder does not exist; make it first"):
        save_model(MODELS["ranking"][0], tmp_path / "none" / "m")


def test_pipes_and_devices(tmp_path):
    """What is not an ordinary file is written to, not replaced, also where it has no name, as behind /dev/stdout."""
    path = tmp_path / "m"
    save_model(MODELS["ranking"][0], path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read, write = os.pipe()
    for source, place in ((pipe, pipe), (read, f"/dev/fd/{write}")):
        found = []
        reader = threading.Thread(target=lambda source=source, found=found: found.append(drained(source)))
        reader.start()
        save_model(MODELS["ranking"][0], place)
        if source == read:
            os.close(write)
        reader.join()
        assert found == [path.read_bytes()]
    assert stat.S_ISFIFO(pipe.stat().st_mode) and sorted(os.listdir(tmp_path)) == ["m", "pipe"]


def drained(source):
    with open(source, "rb") as file:
        return file.read()


def test_a_full_disk_is_named():
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full, the disk that is always full")
    with pytest.raises(OSError, match=r"No space left on device; make room, or choose another place: '/dev/full'"):
        save_model(MODELS["ranking"][0], "/dev/full")


def test_relative_path_and_equal_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        save_model(MODELS["ranking"][0], name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert load_model("a").C == 10


def test_archives_of_any_kind(tmp_path):
    arrays = {
        "empty": np.empty((0, 3)),
        "scalar": np.array(2.5),
        "text": np.array(["ä", "bcd"]),
        "bytes": np.array([b"x"]),
        "big end first": np.arange(3, dtype=">i4"),
        "by columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "flags": np.array([True, False]),
    }
    write_archive(tmp_path / "a", "any", {"ü": [1, None, {"b": 0.1}]}, arrays)
    content, found, _ = read_archive(tmp_path / "a", "any")
    assert content == {"ü": [1, None, {"b": 0.1}]} and found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].shape == array.shape and found[name].dtype == array.dtype.newbyteorder("=")
    with pytest.raises(TypeError, match="x has dtype object"):
        write_archive(tmp_path / "a", "any", {}, {"x": np.array([None])})
    assert read_archive(tmp_path / "a", "any").content == content
