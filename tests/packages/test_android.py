"""The package for Android: inspected; the library of x86_64 calls nothing of a system, so it also runs on Linux."""

import re
import shutil
import subprocess
import sysconfig
import zipfile

import numpy as np
import pytest
from ort_nodes import TABLES, assert_close, open_session, run

import edge_embed
from edge_embed.packages import android

pytestmark = pytest.mark.slow
ABIS = {"arm64-v8a": "arm64", "armeabi-v7a": "arm", "x86_64": "x86-64"}
MAIN = """public class Main {
  public static void main(String[] arguments) throws Exception {
    edgeembed.ops.EdgeEmbedOps.register(new ai.onnxruntime.OrtSession.SessionOptions() {
      public void registerCustomOpLibrary(String path) { System.out.println("registered " + path); }
    });
  }
}
"""
# By its name, as an app that is also built without the package.
VERSION = """public class Version {
  public static void main(String[] arguments) throws Exception {
    System.out.println(Class.forName("edgeembed.ops.EdgeEmbedOps").getField("VERSION").get(null));
  }
}
"""


@pytest.mark.parametrize("abi", ABIS)
def test_android_library_needs_nothing(packaged, abi):
    folder = f"aar/jni/{abi}"
    ops = packaged("android").binary(f"{folder}/libedge_embed_ops.so")
    delegate = packaged("android").binary(f"{folder}/libedge_embed_tflite.so")
    assert (ops.processor, ops.needed, ops.imports) == (ABIS[abi], (), frozenset())
    assert set(delegate.needed) == {"libc.so", "libedge_embed_ops.so"}
    assert ops.alignment == delegate.alignment == 16384


def test_android_arm64_code_leaves_x18_to_the_system(packaged):
    objdump = shutil.which("aarch64-linux-gnu-objdump") or shutil.which("llvm-objdump")
    if objdump is None:
        pytest.skip("no disassembler of arm64: apt-get install binutils-aarch64-linux-gnu")
    for path in sorted((packaged("android").folder / "aar/jni/arm64-v8a").iterdir()):
        code = subprocess.run([objdump, "-d", path], capture_output=True, text=True, check=True).stdout
        assert len(re.findall(r"\b[xw]19\b", code)) > 10
        assert re.findall(r"^.*\b[xw]18\b.*$", code, re.MULTILINE) == []


@pytest.mark.skipif(sysconfig.get_platform() != "linux-x86_64", reason="the host must be x86-64 Linux")
@pytest.mark.parametrize("method", TABLES)
def test_android_x86_64_library_runs_in_onnx_runtime(packaged, method):
    table = TABLES[method](padding_idx=0)
    session = open_session(table.model(), library=packaged("android").folder / "aar/jni/x86_64/libedge_embed_ops.so")
    ids = np.arange(50).reshape(10, 5)
    assert_close(run(session, ids), np.float32, table.rows64[ids], table.magnitudes[ids])
    with pytest.raises(Exception, match=r"got id -1 at position 0 .*expected 0 <= id < 50"):
        run(session, np.array([[-1]]))


@pytest.mark.skipif(shutil.which("javac") is None, reason="a JDK is missing: apt-get install default-jdk-headless")
class TestArchive:
    def test_aar_has_all_parts(self, packaged):
        (path,) = packaged("android").folder.glob("*.aar")
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
        assert names >= {"AndroidManifest.xml", "R.txt", "classes.jar", "proguard.txt"}
        assert {name for name in names if name.endswith("ops.so")} == {
            f"jni/{abi}/libedge_embed_ops.so" for abi in ABIS
        }

    def test_helper_class_compiles_to_same_bytes(self, packaged, tmp_path):
        android.compile_helper(tmp_path / "classes.jar")
        assert (packaged("android").folder / "aar/classes.jar").read_bytes() == (tmp_path / "classes.jar").read_bytes()

    def test_helper_class_states_the_version_without_the_library(self, tmp_path):
        android.compile_helper(tmp_path / "classes.jar")
        (tmp_path / "Version.java").write_text(VERSION)
        java = ["java", "-cp", tmp_path / "classes.jar", tmp_path / "Version.java"]
        done = subprocess.run(java, capture_output=True, text=True, check=False)
        assert done.stdout == f"{edge_embed.__version__}\n", done.stderr

    @pytest.mark.skipif(sysconfig.get_platform() != "linux-x86_64", reason="the host must be x86-64 Linux")
    def test_helper_class_loads_and_registers_library(self, packaged, tmp_path):
        folder = packaged("android").folder / "aar"
        stubs = tmp_path / "ai" / "onnxruntime"
        stubs.mkdir(parents=True)
        for name, text in android._STUBS.items():
            (stubs / name).write_text(text)
        (tmp_path / "Main.java").write_text(MAIN)
        path = f"{folder / 'classes.jar'}:{tmp_path}"
        compiled = subprocess.run(["javac", "-cp", path, "-d", tmp_path, tmp_path / "Main.java"], check=False)
        assert compiled.returncode == 0
        java = ["java", f"-Djava.library.path={folder / 'jni/x86_64'}", "-cp", path, "Main"]
        done = subprocess.run(java, capture_output=True, text=True, check=False)
        assert done.stdout == "registered libedge_embed_ops.so\n", done.stderr
