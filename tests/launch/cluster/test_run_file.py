"""The run file: written whole, read strictly."""

import errno
import json
import shutil
from pathlib import Path

import pytest

from hobus.launch.cli import checkup
from hobus.launch.cluster import run_file
from hobus.launch.cluster.home import HomeLock, make_home, prepare
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher.supervision import Member

RUN = run_file.RunFile(
    phase="running",
    launcher_pid=7,
    launcher_mark="m",
    started_at=1.5,
    sockets="/tmp/x",
    config_digest="sha256:00",
    config_origin="shipped",
    drain_bound_s=21.0,
    children=[Member(actor="ho1/1", role="ho1").row()],
)


def test_in_a_copy_of_its_directory_it_names_no_run(tmp_path):
    """Nor after another boot: what it says is of processes that are none of this home's."""
    here, copy = tmp_path / "here", tmp_path / "copy"
    here.mkdir()
    run_file.write(here / "run.json", RUN)
    shutil.copytree(here, copy)
    assert run_file.read(copy / "run.json") is None and run_file.is_of_elsewhere(copy / "run.json")
    assert run_file.read(here / "run.json") and not run_file.is_of_elsewhere(here / "run.json")
    text = (here / "run.json").read_text()
    mark = json.loads(text)["directory_mark"]
    (here / "run.json").write_text(text.replace(mark, f"another-boot:{mark.partition(':')[2]}"))
    assert run_file.read(here / "run.json") is None


def test_in_a_directory_that_was_moved_it_still_counts(tmp_path):
    (tmp_path / "here").mkdir()
    run_file.write(tmp_path / "here" / "run.json", RUN)
    (tmp_path / "here").rename(tmp_path / "there")
    assert run_file.read(tmp_path / "there" / "run.json")


def test_a_home_that_was_moved_while_it_ran_is_told(tmp_path):
    """Its processes use the former path, also where somebody made another directory there; a link is no move."""
    home = make_home(tmp_path / "here")
    prepare(home)
    run_file.write(home.run_file, RUN.model_copy(update={"root": str(home.root)}))
    (tmp_path / "link").symlink_to(home.root)
    home.snapshot.write_bytes(b"")
    lock = HomeLock.take(home)
    assert lock is not None
    assert run_file.find_running(home) and run_file.find_running(make_home(tmp_path / "link"))
    moved = make_home(home.root.rename(tmp_path / "there"))
    for _ in range(2):
        with pytest.raises(CommandError, match=f"was started in {home.root}, and moved while it ran") as caught:
            run_file.find_running(moved)
        assert caught.value.exit_code == exit_codes.UNREACHABLE
        assert caught.value.hint == f"hobus down --home {moved.root}"
        (finding, *_), _run = checkup.check_cluster(moved)
        assert finding.verdict == "fail" and "moved while it ran" in finding.detail
        home.root.mkdir(exist_ok=True)
    lock.release()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    """The error names the file; neither a torn one nor its forerunner is left."""
    path = tmp_path / "run.json"
    run_file.write_whole(path, "old")

    def full(self, text, encoding):
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match=r"No space left on device: .*run\.json") as caught:
        run_file.write_whole(path, "new")
    assert caught.value.errno == errno.ENOSPC
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("run.json", "old")]


@pytest.mark.parametrize("text", [b"", b"{", b"{}", b'{"version": 99}', b"\xff\xfe", b'{"phase": "\xe4"}'])
def test_a_file_of_another_shape_is_named(tmp_path, text):
    """A torn or foreign file, or one that is not text, is a clear error that names the path."""
    path = tmp_path / "run.json"
    path.write_bytes(text)
    with pytest.raises(CommandError, match=r"run\.json"):
        run_file.read(path)
