"""Output files: they appear whole or not at all, and replace an existing file only with force."""

import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from edge_embed.errors import BadInputError, OutputError
from edge_embed.files import check_new_folder, check_output, new_file, new_files, new_folder


def nothing() -> None:
    pass


def write(path: Path, data: bytes = b"new", *, force: bool = False, meanwhile: Callable[[], object] = nothing) -> None:
    with new_file(path, force=force) as temporary:
        temporary.write_bytes(data)
        meanwhile()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_new_file_appears_only_when_complete(tmp_path: Path) -> None:
    target = tmp_path / "model.onnx"
    with new_file(target) as temporary:
        assert temporary.name == "model.onnx"
        assert not temporary.exists()
        assert temporary.parent.stat().st_dev == tmp_path.stat().st_dev
        temporary.write_bytes(b"new")
        assert not target.exists()
    assert target.read_bytes() == b"new"
    assert names(tmp_path) == ["model.onnx"]


def test_relative_path_keeps_its_folder_after_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "else").mkdir()
    with new_file("model.pt") as temporary:
        os.chdir("else")
        temporary.write_bytes(b"new")
    assert names(tmp_path) == ["else", "model.pt"]
    assert not names(tmp_path / "else")


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_permissions_equal_those_of_plain_file(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write(tmp_path / "ours")
        (tmp_path / "plain").write_bytes(b"")
    finally:
        os.umask(before)
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_existing_file_needs_force(tmp_path: Path) -> None:
    target = tmp_path / "model.pt"
    target.write_bytes(b"old")
    with pytest.raises(BadInputError, match="--force / force=True"), new_file(target):
        pytest.fail("the body must not run: its work would be lost")
    assert target.read_bytes() == b"old"
    write(target, force=True)
    assert target.read_bytes() == b"new"
    assert names(tmp_path) == ["model.pt"]


def test_reader_of_replaced_file_keeps_old_content(tmp_path: Path) -> None:
    target = tmp_path / "model.pt"
    target.write_bytes(b"old")
    with target.open("rb") as reader:
        write(target, force=True)
        assert reader.read() == b"old"


@pytest.mark.parametrize("hard_links", [True, False])
@pytest.mark.parametrize("kind", ["file", "dangling link", "directory"])
def test_file_created_meanwhile_is_kept_without_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, hard_links: bool
) -> None:
    """Another process takes the name while the file is written."""
    if not hard_links:
        monkeypatch.setattr(os, "link", refuse(errno.EPERM))
    target = tmp_path / "model.pt"
    take_the_name = {
        "file": lambda: target.write_bytes(b"theirs"),
        "dangling link": lambda: target.symlink_to(tmp_path / "nowhere"),
        "directory": target.mkdir,
    }
    with pytest.raises(BadInputError, match="exists"):
        write(target, meanwhile=take_the_name[kind])
    assert names(tmp_path) == ["model.pt"]
    assert kind != "file" or target.read_bytes() == b"theirs"
    assert kind != "dangling link" or target.is_symlink()


def throw(error: BaseException) -> Any:
    def thrower(*arguments: Any, **options: Any) -> NoReturn:
        raise error

    return thrower


def refuse(number: int) -> Any:
    return throw(OSError(number, os.strerror(number)))


def test_new_file_works_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", refuse(errno.EPERM))
    write(tmp_path / "a")
    write(tmp_path / "a", b"newer", force=True)
    assert (tmp_path / "a").read_bytes() == b"newer"
    monkeypatch.setattr(Path, "replace", refuse(errno.ENOSPC))
    with pytest.raises(OutputError):
        write(tmp_path / "b")
    assert names(tmp_path) == ["a"]  # the placeholder of the name is removed too


@pytest.mark.parametrize("force", [False, True])
def test_impossible_targets_are_refused_with_reason(tmp_path: Path, force: bool) -> None:
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    cases = {
        tmp_path: "is a directory",
        tmp_path / "none" / "model.pt": "not an existing directory",
        tmp_path / "file" / "model.pt": "not an existing directory",
        tmp_path / "pipe": "device or a pipe",
        Path("/dev/null"): "device or a pipe",
        Path(): "is a directory",
    }
    for target, message in cases.items():
        with pytest.raises(BadInputError, match=message):
            write(target, force=force)
    assert names(tmp_path) == ["file", "pipe"]
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_symbolic_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(BadInputError, match="exists"):
        write(tmp_path / "link")
    write(tmp_path / "link", force=True)
    assert (tmp_path / "real").read_bytes() == b"old"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), BadInputError("x")])
@pytest.mark.parametrize("force", [False, True])
def test_error_in_body_leaves_target_unchanged(tmp_path: Path, error: BaseException, force: bool) -> None:
    target = tmp_path / "model.pt"
    if force:
        target.write_bytes(b"old")
    with pytest.raises(type(error)):
        write(target, b"half", force=force, meanwhile=throw(error))
    assert names(tmp_path) == (["model.pt"] if force else [])
    assert not force or target.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "No space left on device; free some space"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "choose a writable output path"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "choose another path"),
    ],
)
def test_write_errors_name_remedy(tmp_path: Path, number: int, remedy: str) -> None:
    target = tmp_path / "model.pt"
    with pytest.raises(OutputError, match=remedy) as caught:
        write(target, b"half", meanwhile=throw(OSError(number, os.strerror(number))))
    assert str(target) in str(caught.value)
    assert not names(tmp_path)


def test_errors_of_other_files_pass_through(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), new_file(tmp_path / "model.pt"):
        (tmp_path.parent / "input-that-is-not-there").read_bytes()
    assert not names(tmp_path)


def test_failed_flush_raises_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", refuse(errno.EIO))
    with pytest.raises(OutputError, match="cannot be written"):
        write(tmp_path / "model.pt")
    assert not names(tmp_path)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root: run the tests as root")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_full_file_system_keeps_old_file_and_frees_space(tiny_disk: Path) -> None:
    target = tiny_disk / "model.pt"
    target.write_bytes(b"old")
    with pytest.raises(OutputError, match="No space left on device; free some space"):
        write(target, bytes(1 << 20), force=True)
    assert target.read_bytes() == b"old"
    assert names(tiny_disk) == ["model.pt"]
    write(target, bytes(40_000), force=True)  # the partial file was removed


def test_check_output_refuses_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.mkdtemp", refuse(errno.EACCES))  # root may write anywhere
    with pytest.raises(OutputError, match="cannot be written: Permission denied; choose a writable output path"):
        check_output([tmp_path / "out"], [], False)


def test_new_file_refuses_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.mkdtemp", refuse(errno.EACCES))  # root may write anywhere
    with pytest.raises(OutputError, match="Permission denied; choose a writable output path"):
        write(tmp_path / "model.pt")


def test_name_over_255_characters_is_refused_with_remedy(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="shorter"):
        write(tmp_path / ("x" * 300))
    write(tmp_path / ("x" * 255))


def test_killed_process_leaves_target_unchanged(tmp_path: Path) -> None:
    target = tmp_path / "model.pt"
    target.write_bytes(b"old")
    script = """
        import sys, time
        from edge_embed.files import new_file
        with new_file(sys.argv[1], force=True) as temporary:
            temporary.write_bytes(b"half")
            print("writing", flush=True)
            time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGKILL)
    assert target.read_bytes() == b"old"
    assert [name for name in names(tmp_path) if not name.startswith(".edge-embed-")] == ["model.pt"]


# ---- several files


def write_both(folder: Path, *, force: bool = False, meanwhile: Callable[[], object] = nothing) -> None:
    with new_files([folder / "m.onnx.data", folder / "m.onnx"], force=force) as (data, model):
        data.write_bytes(b"new data")
        model.write_bytes(b"new model")
        meanwhile()


def test_new_files_are_written_and_replaced_together(tmp_path: Path) -> None:
    write_both(tmp_path)
    assert (tmp_path / "m.onnx.data").read_bytes() == b"new data"
    assert (tmp_path / "m.onnx").read_bytes() == b"new model"
    write_both(tmp_path, force=True)
    assert names(tmp_path) == ["m.onnx", "m.onnx.data"]


@pytest.mark.parametrize("taken", ["m.onnx.data", "m.onnx"])
def test_new_files_with_one_existing_are_refused(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_bytes(b"old")
    with pytest.raises(BadInputError, match="exists"):
        write_both(tmp_path)
    assert names(tmp_path) == [taken]
    assert (tmp_path / taken).read_bytes() == b"old"


def test_new_files_remove_first_when_second_is_taken(tmp_path: Path) -> None:
    target = tmp_path / "m.onnx"
    with pytest.raises(BadInputError, match="exists"):
        write_both(tmp_path, meanwhile=lambda: target.write_bytes(b"theirs"))
    assert names(tmp_path) == ["m.onnx"]
    assert target.read_bytes() == b"theirs"


def test_new_files_restore_first_when_second_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ["m.onnx.data", "m.onnx"]:
        (tmp_path / name).write_bytes(b"old")
    replace = Path.replace

    def fail_at_the_model(self: Path, target: Path) -> Path:
        if target.name == "m.onnx":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail_at_the_model)
    with pytest.raises(OutputError):
        write_both(tmp_path, force=True)
    assert names(tmp_path) == ["m.onnx", "m.onnx.data"]
    assert {(tmp_path / name).read_bytes() for name in names(tmp_path)} == {b"old"}


def test_data_file_is_in_place_before_model_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link, moved = os.link, []

    def record(source: Path, target: Path, **options: Any) -> None:
        moved.append(Path(target).name)
        link(source, target, **options)

    monkeypatch.setattr(os, "link", record)
    write_both(tmp_path)
    assert moved == ["m.onnx.data", "m.onnx"]


def test_new_files_refuse_file_not_written_by_body(tmp_path: Path) -> None:
    paths = [tmp_path / "m.onnx.data", tmp_path / "m.onnx"]
    with pytest.raises(OutputError, match="No such file"), new_files(paths) as (data, _model):
        data.write_bytes(b"new data")
    assert not names(tmp_path)


def test_new_files_in_two_directories_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with (
        pytest.raises(BadInputError, match="one directory"),
        new_files([tmp_path / "a", tmp_path / "other" / "b"]),
    ):
        pytest.fail("the body must not run")


@pytest.mark.parametrize("force", [False, True])
def test_dash_is_refused_as_output(force: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for call in (lambda: check_output([Path("-")], [], force), lambda: write(Path("-"), force=force)):
        with pytest.raises(BadInputError, match="-: got standard output, expected the path"):
            call()
    assert names(tmp_path) == []


@pytest.mark.parametrize("force", [False, True])
def test_new_folder_fills_an_existing_empty_folder(tmp_path: Path, force: bool) -> None:
    target = tmp_path / "package"
    target.mkdir()
    with new_folder(target, "mark.txt", force=force) as folder:
        (folder / "mark.txt").write_text("made")
    assert (target / "mark.txt").read_text() == "made"
    assert names(tmp_path) == ["package"]


def test_new_folder_keeps_an_empty_folder_that_was_filled_meanwhile(tmp_path: Path) -> None:
    target = tmp_path / "package"
    target.mkdir()
    with pytest.raises(OutputError), new_folder(target, "mark.txt") as folder:
        (folder / "mark.txt").write_text("made")
        (target / "other.txt").write_text("kept")
    assert names(target) == ["other.txt"]
    assert names(tmp_path) == ["package"]


@pytest.mark.parametrize(("force", "message"), [(False, "exists; choose another path"), (True, "without mark.txt")])
def test_check_new_folder_refuses_a_folder_with_other_files(tmp_path: Path, force: bool, message: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "other.txt").touch()
    with pytest.raises(BadInputError, match=message):
        check_new_folder(tmp_path / "package", "mark.txt", force)
