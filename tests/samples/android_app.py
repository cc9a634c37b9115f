"""The Android sample without Android: its Kotlin is compiled against small stubs, and runs on the JVM.

The stubs of ``ai.onnxruntime`` run models in ONNX Runtime for Python, in a process of their own.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import onnxruntime
import pytest

from tests.debian_package import debian_package

SAMPLE = Path(__file__).parents[2] / "samples" / "android"
MAIN = SAMPLE / "app" / "src" / "main"
_STUBS = Path(__file__).parent / "android_stubs"
_KOTLINC = "share/kotlin/kotlinc/bin/kotlinc"
_KOTLIN_NEEDS = ["jansi", "jansi-native", "jetbrains-annotations", "jline3", "trove-intellij", "vavr0"]
_JSON = "share/java/json-android.jar"
_NAME = "{http://schemas.android.com/apk/res/android}id"
_FAST_START = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
_SECONDS = 300


def tool(name: str, package: str) -> str:
    """Return the path of a program, or skip the test."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: apt-get install {package}")
    return found


def _kotlin() -> Path:
    """Return the path of the compiler."""
    return debian_package("kotlin", _KOTLINC, *(f"lib{name}-java" for name in _KOTLIN_NEEDS)) / _KOTLINC


def strings() -> dict[str, str]:
    """Return the texts of the app by name."""
    root = ElementTree.parse(MAIN / "res" / "values" / "strings.xml").getroot()
    return {element.attrib["name"]: element.text or "" for element in root.iter("string")}


def resources() -> dict[str, list[str]]:
    """Return the names of the resources that code can use, by kind."""
    layouts = sorted((MAIN / "res" / "layout").glob("*.xml"))
    elements = [element for path in layouts for element in ElementTree.parse(path).iter()]
    ids = [element.attrib[_NAME].removeprefix("@+id/") for element in elements if _NAME in element.attrib]
    return {"id": ids, "layout": [path.stem for path in layouts], "string": [*strings()]}


def _generated(folder: Path) -> list[Path]:
    """Write class ``R``, and the texts for the stub of ``Context``."""
    classes = [
        f"public static final class {kind} {{ "
        + " ".join(f"public static final int {name} = {at};" for at, name in enumerate(names))
        + " }"
        for kind, names in resources().items()
    ]
    texts = ", ".join(map(json.dumps, strings().values()))
    ids = folder / "R.java"
    ids.write_text(f"package edgeembed.nextword; public final class R {{ {' '.join(classes)} }}", encoding="utf-8")
    text = folder / "Strings.java"
    text.write_text(f"package android.content; class Strings {{ static final String[] ALL = {{{texts}}}; }}")
    return [ids, text]


def kotlinc(sources: list[Path], output: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the compiler."""
    environment = os.environ | {"JAVA_OPTS": " ".join(["-Xmx512m", *_FAST_START])}
    command = [str(_kotlin()), *options, "-d", str(output), *map(str, sources)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)


def compile_app(folder: Path) -> list[Path]:
    """Compile the app, and return the class path that runs it."""
    javac = tool("javac", "default-jdk-headless")
    org_json = debian_package("libandroid-json-org-java", _JSON) / _JSON
    home = _kotlin().parents[1] / "lib"
    libraries = [org_json, home / "kotlin-stdlib-jdk7.jar"]
    stubs, classes = folder / "stubs", folder / "classes"
    sources = [*_generated(folder), *sorted(_STUBS.rglob("*.java"))]
    subprocess.run([javac, "-encoding", "UTF-8", "-cp", org_json, "-d", stubs, *sources], timeout=_SECONDS, check=True)
    kotlin = [*sorted(MAIN.rglob("*.kt")), _STUBS / "Harness.kt"]
    path = os.pathsep.join(map(str, [stubs, *libraries]))
    done = kotlinc(kotlin, classes, "-jvm-target", "1.8", "-cp", path)
    assert done.returncode == 0, done.stderr
    return [classes, stubs, *libraries, home / "kotlin-stdlib.jar"]


@dataclass(frozen=True)
class App:
    """The app in a JVM."""

    process: subprocess.Popen[str]

    def ask(self, call: str, onnxruntime: str = onnxruntime.__version__, **question: object) -> dict[str, Any]:
        """Return the answer of the harness.

        Args:
            call: what the harness does.
            onnxruntime: the version that the app sees.
            question: arguments of the call.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        values = {name: str(value) if isinstance(value, Path) else value for name, value in question.items()}
        self.process.stdin.write(json.dumps({"call": call, "onnxruntime": onnxruntime, **values}) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        # A screen keeps its model, as the app does. All else is closed, after errors too.
        assert answer.pop("open") == 0 or call == "screens"
        return answer


@contextmanager
def started(path: list[Path], libraries: Path | None = None) -> Iterator[App]:
    """Run the app.

    Args:
        path: class path.
        libraries: folder of the operator library.
    """
    settings = {"python": sys.executable, "onnxruntime.process": _STUBS / "onnxruntime_process.py"}
    environment = dict(os.environ)
    if libraries is not None:
        settings["java.library.path"] = environment["LD_LIBRARY_PATH"] = str(libraries)
    options = [*_FAST_START, *(f"-D{name}={value}" for name, value in settings.items())]
    command = [tool("java", "default-jre-headless"), *options, "-cp", os.pathsep.join(map(str, path)), "HarnessKt"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8", env=environment) as process:
        yield App(process)
        assert process.stdin is not None
        process.stdin.close()


def referenced(kind: str) -> set[str]:
    """Return the names of the resources of a kind that the XML files of the app use."""
    texts = [path.read_text(encoding="utf-8") for path in MAIN.rglob("*.xml")]
    return {name for text in texts for name in re.findall(rf'"@{kind}/([\w.]+)"', text)}
