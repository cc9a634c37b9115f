"""Targets on other machines, by ssh and by adb: their results, their folders, and the messages of failures."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edge_embed
from edge_embed import workflow
from edge_embed.targets import adb, ssh
from edge_embed.targets.catalog import make_target
from edge_embed.targets.process import finish_program
from edge_embed.targets.remote import remote_folder
from edge_embed.targets.runner import own_files
from edge_embed.targets.ssh import SshTransport
from edge_embed.targets.target import NotRunError, RunFailedError, RunOptions, Subject

sys.path.insert(0, str(Path(__file__).parent))
from machines import Machine, adb_machine, ssh_machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the machine reached is this one, and has to be Linux")

OPTIONS = RunOptions(iterations=2, time_limit=60)
IDS = [{"ids": np.array([[3, 1, 699], [5, 0, 6]])}]


@pytest.fixture(params=["ssh", "adb"])
def machine(request, tmp_path, monkeypatch):
    """Return this machine, reached in both ways; for adb with its own runner in place of one for Android."""
    if request.param == "adb":
        found, search_path = adb_machine(tmp_path, os.environ["PATH"])
        monkeypatch.setenv("PATH", search_path)
        pretend_android(monkeypatch, tmp_path)
        yield found
    else:
        with ssh_machine(tmp_path, os.environ["PATH"]) as (found, search_path):
            monkeypatch.setenv("PATH", search_path)
            yield found


@pytest.fixture
def host(tmp_path, monkeypatch):
    with ssh_machine(tmp_path, os.environ["PATH"]) as (found, search_path):
        monkeypatch.setenv("PATH", search_path)
        yield found


def pretend_android(monkeypatch, folder):
    toolchain = folder / "ndk" / adb._TOOLCHAIN
    toolchain.parent.mkdir(parents=True)
    toolchain.touch()
    monkeypatch.setenv("ANDROID_NDK_HOME", str(folder / "ndk"))
    monkeypatch.setenv(adb.RUNTIME_VARIABLE, str(toolchain))
    own = own_files([edge_embed.get_library_path()])
    monkeypatch.setattr(adb, "android_files", lambda system, time_limit: own)


def slow_runner(monkeypatch, folder) -> Path:
    """Install a runner that never ends; the returned file has its process id as soon as it runs."""
    runner, number = folder / "runner", folder / "number"
    runner.write_text(f"#!/bin/sh\necho $$ >{number}.new; mv {number}.new {number}; exec sleep 600\n")
    runner.chmod(0o755)
    files = replace(own_files([edge_embed.get_library_path()]), runner=runner)
    monkeypatch.setattr(adb, "android_files", lambda system, time_limit: files)
    monkeypatch.setattr(ssh, "files_of_this_machine", lambda system: files)
    return number


def wait_for(condition) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def gone(number: Path) -> bool:
    status = Path("/proc", number.read_text().strip(), "status")
    return not status.exists() or "State:\tZ" in status.read_text()


class TestRun:
    @pytest.mark.slow
    def test_outputs_of_every_model_match_training_form(self, model, machine):
        result = model.on(machine.target, iterations=2)
        assert (result.status, result.name, result.evidence) == ("passed", machine.target, "executed-native")
        assert result.versions["system"].startswith("Linux ")
        assert min(result.times.create, result.times.first, *result.times.calls) > 0
        assert len(result.times.calls) == 2
        assert result.counters["resident_bytes"] > 0
        assert list(machine.folder.iterdir()) == []

    def test_file_names_of_any_kind_and_external_data_are_copied(self, tagger, machine, tmp_path):
        odd = tmp_path / 'it\'s a $HOME "folder";'
        odd.mkdir()
        path = odd / 'the model\'s `id` & "more" é\n.onnx'
        workflow.export(tagger.program, "onnx", path, external_data="always")
        subject = Subject(path, tagger.program, [path.with_name(path.name + ".data")])
        with make_target(machine.target).prepare(subject, OPTIONS) as prepared:
            (copied,) = machine.folder.glob("edge-embed-*")
            assert copied.stat().st_mode & 0o077 == 0
            assert len(list((copied / "model").iterdir())) == 2
            run = prepared.run(IDS, OPTIONS)
        with make_target("local").prepare(Subject(path, tagger.program), OPTIONS) as prepared:
            here = prepared.run(IDS, OPTIONS)
        np.testing.assert_array_equal(run.outputs[0][0], here.outputs[0][0])
        assert list(machine.folder.iterdir()) == []

    def test_bad_id_is_an_error_of_the_model(self, tagger, machine):
        with prepared_on(machine, tagger) as prepared:
            with pytest.raises(
                RunFailedError, match=r"the runner on \w+ \w+ ended with status 1: edge_embed_runner: .*700"
            ):
                prepared.run([{"ids": np.array([[3, 700]])}], OPTIONS)
            assert prepared.run(IDS, OPTIONS).outputs  # and no more than that
        assert list(machine.folder.iterdir()) == []

    def test_kernel_variant_is_chosen_on_machine_too(self, tagger, machine, monkeypatch):
        slow_runner(monkeypatch, machine.folder.parent)
        script = machine.folder.parent / "runner"
        script.write_text('#!/bin/sh\necho "[$EDGE_EMBED_FORCE_ISA]" >&2\nexit 3\n')
        monkeypatch.setenv("EDGE_EMBED_FORCE_ISA", "a 'name'")
        with (
            prepared_on(machine, tagger) as prepared,
            pytest.raises(RunFailedError, match=r"ended with status 3: \[a 'name'\]"),
        ):
            prepared.run(IDS, OPTIONS)

    def test_crash_is_named_as_signal(self, tagger, machine, monkeypatch):
        slow_runner(monkeypatch, machine.folder.parent)
        (machine.folder.parent / "runner").write_text("#!/bin/sh\nkill -SEGV $$\n")
        with (
            prepared_on(machine, tagger) as prepared,
            pytest.raises(RunFailedError, match="was ended by signal SIGSEGV"),
        ):
            prepared.run(IDS, OPTIONS)


class TestNothingIsLeft:
    def test_machine_is_clean_after_time_limit(self, tagger, machine, monkeypatch):
        number = slow_runner(monkeypatch, machine.folder.parent)
        with (
            prepared_on(machine, tagger) as prepared,
            pytest.raises(NotRunError, match=r"took more than 2 s, the time"),
        ):
            prepared.run(IDS, replace(OPTIONS, time_limit=2))
        wait_for(lambda: gone(number))
        assert list(machine.folder.iterdir()) == []

    def test_machine_is_clean_after_kill_of_local_program(self, machine):
        """A program like this one holds a folder on the machine and is killed."""
        class_name = "SshTransport" if machine.ssh_config else "AdbTransport"
        scheme, _, name = machine.target.partition(":")
        program = (
            f"from edge_embed.targets.{scheme} import {class_name}\n"
            "from edge_embed.targets.remote import remote_folder\n"
            "import time\n"
            f"with remote_folder({class_name}({name!r}), 60):\n"
            "    print('ready', flush=True)\n"
            "    time.sleep(600)\n"
        )
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as holder:
            # Only the program knows where adb has its folders.
            assert holder.stdout.readline() == b"ready\n"
            assert len(list(machine.folder.iterdir())) == 1
            holder.send_signal(signal.SIGKILL)
        wait_for(lambda: not list(machine.folder.iterdir()))

    def test_machine_is_clean_after_broken_connection(self, tagger, machine, monkeypatch):
        number = slow_runner(monkeypatch, machine.folder.parent)
        breaker = threading.Thread(target=lambda: (wait_for(number.exists), machine.vanish()))
        breaker.start()
        start = time.monotonic()
        with (
            pytest.raises(NotRunError, match=rf"{machine.target[4:]}: the connection ended while the model ran"),
            prepared_on(machine, tagger) as prepared,
        ):
            prepared.run(IDS, OPTIONS)
        assert time.monotonic() - start < 40
        breaker.join()
        wait_for(lambda: gone(number))
        wait_for(lambda: not list(machine.folder.iterdir()))


class TestNotRun:
    def test_absent_machine_is_named(self, tagger, machine):
        with prepared_on(machine, tagger) as prepared:
            machine.vanish()
            with pytest.raises(NotRunError, match=rf"{machine.target[4:]}: .*(refused|not found)"):
                prepared.run(IDS, OPTIONS)

    def test_host_key_that_changed_is_refused(self, tagger, host):
        other = host.ssh_config.with_name("other")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
        known = host.ssh_config.with_name("known")
        known.write_text(known.read_text().split()[0] + " " + other.with_suffix(".pub").read_text())
        result = tagger.on(host.target)
        assert (result.status, result.detail) == ("not run", "host pi: Host key verification failed.")

    def test_user_key_unknown_to_host_is_refused(self, host):
        host.ssh_config.with_name("user.pub").write_text("")
        with pytest.raises(NotRunError, match=r"host pi: .*Permission denied"), remote_folder(SshTransport("pi"), 30):
            pass

    def test_host_without_answer_in_time_is_named(self, monkeypatch, tmp_path):
        (tmp_path / "ssh").write_text("#!/bin/sh\nexec sleep 600\n")
        (tmp_path / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(NotRunError, match="host pi: no answer"), remote_folder(SshTransport("pi"), 0.5):
            pass

    def test_host_name_like_an_option_is_a_host(self):
        done = finish_program(SshTransport("-V").shell("true"), 30, what="ssh")
        assert done.status != 0
        assert "OpenSSH" not in done.complaints

    def test_processor_without_build_is_refused(self):
        with pytest.raises(
            NotRunError, match="got Linux riscv64, expected Linux aarch64, or the system of this machine"
        ):
            ssh._files_for("Linux riscv64", OPTIONS)
        with pytest.raises(NotRunError, match="got Darwin arm64"):
            ssh._files_for("Darwin arm64", OPTIONS)

    def test_folder_that_cannot_be_made_is_named(self, machine):
        transport = replace(transport_of(machine), parent="/dev/null")
        with pytest.raises(NotRunError, match="Not a directory"), remote_folder(transport, 30):
            pass

    def test_incomplete_answer_is_named(self, tmp_path):
        (tmp_path / "cut.tar").write_bytes(b"x" * 700)
        with (tmp_path / "cut.tar").open("rb") as packed, pytest.raises(NotRunError, match="results are incomplete"):
            ssh._unpack(packed, ["0.out"], tmp_path)

    def test_missing_programs_are_named_with_their_commands(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        for name in (*adb.NDK_VARIABLES, adb.RUNTIME_VARIABLE):
            monkeypatch.delenv(name, raising=False)
        lacks = {problem.what: problem.remedy for problem in make_target("ssh:pi").lacks()}
        assert lacks == {"ssh is missing": "apt-get install openssh-client", "tar is missing": "apt-get install tar"}
        lacks = {problem.what: problem.remedy for problem in make_target("adb:pixel").lacks()}
        assert lacks["adb is missing"] == "apt-get install adb"
        assert lacks["the Android NDK is missing"] == "set ANDROID_NDK_HOME to its folder"
        assert adb.RUNTIME_VARIABLE in lacks["ONNX Runtime for Android is missing"]

    def test_unconnected_device_is_named(self, monkeypatch, tmp_path):
        _, search_path = adb_machine(tmp_path, os.environ["PATH"])
        monkeypatch.setenv("PATH", search_path)
        pretend_android(monkeypatch, tmp_path)
        (lack,) = make_target("adb:other").lacks()
        assert lack.what.startswith(
            "no device other is ready (adb ended with status 1: error: device 'other' not found"
        )
        assert make_target("adb:pixel").lacks() == []

    def test_android_processor_without_build_is_refused(self, monkeypatch, tmp_path):
        build_for = adb.android_files
        pretend_android(monkeypatch, tmp_path)
        with pytest.raises(NotRunError, match="got Linux armv8l, expected one of Linux aarch64, Linux x86_64"):
            build_for("Linux armv8l", 60)


def transport_of(machine: Machine):
    scheme, _, name = machine.target.partition(":")
    return SshTransport(name) if scheme == "ssh" else adb.AdbTransport(name)


def prepared_on(machine: Machine, model):
    return make_target(machine.target).prepare(Subject(model.path, model.program), OPTIONS)
