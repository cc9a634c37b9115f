"""The package for Windows: DLLs with import libraries, executed under Wine."""

import shutil

import pytest

pytestmark = pytest.mark.slow


def test_windows_dlls_need_system_libraries_only(packaged):
    package = packaged("windows")
    ops, delegate = (package.binary(f"bin/edge_embed_{name}.dll") for name in ("ops", "tflite"))
    assert {"RegisterCustomOps", "RegisterEdgeEmbedOps", "ee_gather"} <= ops.exports
    assert delegate.exports == {"tflite_plugin_create_delegate", "tflite_plugin_destroy_delegate"}
    system = {name for name in ops.needed if name.startswith("api-ms-win-crt-") or name == "KERNEL32.dll"}
    assert system == set(ops.needed)
    assert set(delegate.needed) - system <= {"edge_embed_ops.dll", "api-ms-win-crt-string-l1-1-0.dll"}
    for name in ("ops", "tflite"):
        assert f"edge_embed_{name}.dll".encode() in (package.folder / "lib" / f"edge_embed_{name}.lib").read_bytes()


def test_windows_library_ran_under_wine_with_each_instruction_set(packaged):
    if shutil.which("wine") is None:
        pytest.skip("wine is missing: apt-get install wine")
    package = packaged("windows")
    assert package.proof("bin/edge_embed_ops.dll") == ("executed", "executed-emulated")
    (library,) = (file for file in package.report.files if file.path == "bin/edge_embed_ops.dll")
    isas = library.detail.partition("; ran ")[2].split(", ")
    print("instruction sets under Wine:", *isas)
    assert isas[-2:] == ["portable", "reference"]
