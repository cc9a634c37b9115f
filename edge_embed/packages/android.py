"""Packages for Android: the layout of an AAR with the libraries of all ABIs, and the archive itself.

The archive requires ``classes.jar``, which a JDK compiles. Without one, the layout and the Java source are written.
"""

import shutil
import tempfile
from pathlib import Path

import edge_embed
from edge_embed.packages.work import Details, Work
from edge_embed.packages.zipped import zip_folder
from edge_embed.report.results.packaged import NotMade
from edge_embed.targets.process import run_tool
from edge_embed.targets.target import NotRunError

_HELPER = Path(__file__).parent / "java" / "EdgeEmbedOps.java"
_MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="edgeembed.ops">
  <uses-sdk android:minSdkVersion="24" />
</manifest>
"""
_PROGUARD = "-keep class edgeembed.ops.EdgeEmbedOps { *; }\n"
# The part of ONNX Runtime's interface that the helper calls, to compile against; it is no part of a package.
_STUBS = {
    "OrtException.java": "package ai.onnxruntime; public class OrtException extends Exception {}",
    "OrtSession.java": "package ai.onnxruntime; public class OrtSession { public static class SessionOptions {"
    " public void registerCustomOpLibrary(String path) throws OrtException {} } }",
}
_JAVAC_SECONDS = 300
_JAVA = "8"  # the oldest class files that a JDK 17 writes; Android's tools read them


def lay_out_android(work: Work, folder: Path) -> Details:
    """Fill the folder of a package, and inspect its libraries."""
    layout, details = folder / "aar", Details()
    for build, tree in work.trees.items():
        place = layout / "jni" / build.abi
        place.mkdir(parents=True)
        for path in sorted((tree / "lib").glob("*.so")):
            shutil.copy2(path, place)
        details |= work.check(place, (build,), tree / "include")
    shutil.copytree(next(iter(work.trees.values())) / "include", folder / "include")
    source = folder / "java" / "edgeembed" / "ops"
    source.mkdir(parents=True)
    (source / _HELPER.name).write_text(_helper(), encoding="utf-8")
    (layout / "AndroidManifest.xml").write_text(_MANIFEST, encoding="utf-8")
    (layout / "R.txt").write_text("", encoding="utf-8")
    (layout / "proguard.txt").write_text(_PROGUARD, encoding="utf-8")
    archive = f"edge-embed-ops-{edge_embed.__version__}.aar"
    try:
        compile_helper(layout / "classes.jar")
    except NotRunError as error:
        work.not_made.append(
            NotMade(f"classes.jar and {archive}; aar/ and java/ are complete without them", str(error))
        )
    else:
        zip_folder(layout, folder / archive)
    return details


def compile_helper(path: Path) -> None:
    """Compile the helper class.

    Raises:
        NotRunError: if there is no JDK, or it fails.
    """
    if shutil.which("javac") is None:
        raise NotRunError("a JDK is missing: apt-get install default-jdk-headless")
    with tempfile.TemporaryDirectory() as temporary:
        stubs, classes = Path(temporary, "ai", "onnxruntime"), Path(temporary, "classes")
        stubs.mkdir(parents=True)
        for name, text in _STUBS.items():
            (stubs / name).write_text(text, encoding="utf-8")
        source = Path(temporary, _HELPER.name)
        source.write_text(_helper(), encoding="utf-8")
        target = ["--release", _JAVA, "-g:none", "-d", str(classes)]
        command = ["javac", *target, "-implicit:none", "-sourcepath", temporary, str(source)]
        run_tool(command, _JAVAC_SECONDS, what="javac")
        zip_folder(classes, path)


def _helper() -> str:
    """Return the source of the helper class, with the version of the library."""
    return _HELPER.read_text(encoding="utf-8").replace("@VERSION@", edge_embed.__version__)
