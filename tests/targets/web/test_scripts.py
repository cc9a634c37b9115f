"""The JavaScript side of the tensors."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from edge_embed.targets.tensors import read_tensors, write_tensors
from edge_embed.targets.web.package import SCRIPTS


class TestScripts:
    """The JavaScript side of the tensors."""

    @pytest.fixture
    def reread(self, tmp_path):
        """Return a function that reads files by JavaScript, and writes them again or returns the error."""
        if not shutil.which("node"):
            pytest.skip("node is missing (Debian: apt-get install nodejs)")
        (tmp_path / "reread.mjs").write_text(
            f"""
import {{ readFileSync, writeFileSync }} from "node:fs";
import {{ readTensors, writeTensors }} from {json.dumps((SCRIPTS / "tensors.mjs").as_uri())};
for (const path of process.argv.slice(2)) {{
  try {{
    writeFileSync(`${{path}}.out`, writeTensors(readTensors(new Uint8Array(readFileSync(path)))));
    console.log("read");
  }} catch (error) {{
    console.log(error.message);
  }}
}}
"""
        )

        def reread(paths):
            command = ["node", tmp_path / "reread.mjs", *paths]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
            return done.stdout.splitlines()

        return reread

    @pytest.fixture
    def sound(self, tmp_path):
        path = tmp_path / "sound"
        write_tensors(path, {"a": np.arange(6).reshape(2, 3), "b": np.array(["x", "yz"]), "c": np.float16([1, 2])})
        return path

    def test_tensors_have_same_bytes_on_both_sides(self, reread, sound):
        assert reread([sound]) == ["read"]
        assert sound.with_name("sound.out").read_bytes() == sound.read_bytes()
        assert read_tensors(sound)["a"].tolist() == [[0, 1, 2], [3, 4, 5]]

    def test_file_cut_anywhere_is_an_error(self, reread, sound, tmp_path):
        whole, paths = sound.read_bytes(), []
        for size in range(len(whole)):
            paths.append(tmp_path / f"cut{size}")
            paths[-1].write_bytes(whole[:size])
        said = reread(paths)
        assert len(said) == len(whole)
        assert all("expected" in line or "not a file of tensors" in line for line in said)
        for path in paths:
            with pytest.raises((ValueError, OSError)):
                read_tensors(path)

    def test_sizes_out_of_proportion_are_errors(self, reread, sound, tmp_path):
        whole, paths = sound.read_bytes(), []
        for at in range(8, len(whole) - 8):
            paths.append(tmp_path / f"wrong{at}")
            paths[-1].write_bytes(whole[:at] + b"\xff" * 8 + whole[at + 8 :])
        said = reread(paths)
        assert len(said) == len(paths)
        assert "read" not in said[:40]  # the counts and sizes of the first tensor
