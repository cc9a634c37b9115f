"""Failures under Node.js and in Chromium: clear messages, and no processes or files left."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from edge_embed.targets.catalog import make_target
from edge_embed.targets.target import NotRunError, RunFailedError, RunOptions, Subject

from .conftest import NAMES, ONE, compare, processes, run


def seconds_used(process: int) -> float:
    """Return the processor time of a process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(condition, seconds: float = 30.0):
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


class TestFailures:
    def test_error_of_runtime_is_reported_literally(self, target, subjects, tmp_path):
        model = onnx.load(subjects("DPQ and GRU").model)
        del model.functions[:]
        onnx.save(model, tmp_path / "bodiless.onnx")
        result = compare(target, Subject(tmp_path / "bodiless.onnx", subjects("DPQ and GRU").program))
        assert result.status == "failed"
        assert "edge_embed:DPQEmbedding" in result.detail
        assert "is not a registered function/op" in result.detail

    def test_id_out_of_range_is_refused(self, target, subjects):
        subject = subjects("DPQ and GRU")
        with pytest.raises(RunFailedError, match="indices element out of data bounds"):
            run(target, subject.model, subject.program.output_names, {"ids": np.array([[1, 600]])})

    def test_missing_external_data_is_reported(self, target, subjects):
        subject = subjects("DPQ and GRU, external data")
        result = compare(target, Subject(subject.model, subject.program))
        assert result.status == "failed"
        assert "external data" in result.detail.lower()

    def test_endless_model_is_ended_by_time_limit(self, target, endless, temporary):
        start = time.monotonic()
        with pytest.raises(NotRunError, match=r"took more than 2 s, the time limit"):
            run(target, endless, ["y"], ONE, RunOptions(time_limit=2))
        assert time.monotonic() - start < 14
        assert processes(temporary) == []
        assert list(temporary.iterdir()) == []

    @pytest.mark.slow
    def test_crashed_tab_is_reported(self, browser, endless, temporary):
        def busy_renderers():
            return [found for found in processes(temporary, "--type=renderer") if seconds_used(found) > 2]

        def kill_renderers():
            for process in wait_for(busy_renderers):
                os.kill(process, signal.SIGKILL)

        killer = threading.Thread(target=kill_renderers)
        killer.start()
        try:
            with pytest.raises(RunFailedError, match="tab crashed"):
                run(browser, endless, ["y"], ONE, RunOptions(time_limit=60))
        finally:
            killer.join()
        assert processes(temporary) == []

    @pytest.mark.slow
    def test_browser_ends_with_process_that_started_it(self, browser, endless, temporary):
        code = f"""
import numpy as np, pathlib, types
from edge_embed.targets.catalog import make_target
from edge_embed.targets.target import RunOptions, Subject
subject = Subject(pathlib.Path({str(endless)!r}), types.SimpleNamespace(output_names=["y"]))
with make_target("browser").prepare(subject, RunOptions()) as prepared:
    prepared.run([{{"x": np.ones(1, np.float32)}}], RunOptions())
"""
        environment = {**os.environ, "TMPDIR": str(temporary)}
        process = subprocess.Popen([sys.executable, "-c", code], env=environment)
        try:
            assert wait_for(lambda: processes(temporary, "--type=renderer"))
        finally:
            process.kill()
            process.wait()
        assert wait_for(lambda: not processes(temporary))

    def test_long_path_for_temporary_files_is_accepted(self, browser, subjects, monkeypatch, tmp_path):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        assert len(str(tmp_path)) > 60
        assert compare(browser, subjects("DPQ and GRU")).status == "passed"

    def test_browser_that_does_not_start_is_not_run(self, browser, endless, monkeypatch, tmp_path):
        (tmp_path / "chromium").write_text("#!/bin/sh\necho 'no usable sandbox' >&2\nexit 3\n")
        (tmp_path / "chromium").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(NotRunError, match=r"opened no page: .*status 3: no usable sandbox"):
            run(browser, endless, ["y"], ONE)


class TestWhatIsMissing:
    def test_missing_programs_are_named_with_their_commands(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        commands = {name: [problem.remedy for problem in make_target(name).lacks()] for name in NAMES}
        assert commands == {
            "node": ["apt-get install nodejs", "apt-get install npm"],
            "browser": ["apt-get install chromium", "apt-get install npm"],
        }

    def test_package_without_connection_is_not_installed(self, monkeypatch, tmp_path, endless):
        if not shutil.which("npm"):
            pytest.skip("npm is missing (Debian: apt-get install npm)")
        cache = tmp_path / "cache"
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
        monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")
        with pytest.raises(NotRunError, match=r"onnxruntime-web-[\d.]+ cannot be downloaded; check the connection"):
            run(make_target("node"), endless, ["y"], ONE)
        assert list(cache.rglob("*")) == [cache / "edge-embed"]
