"""Location of the operator library, with a check that its version is that of this package."""

import ctypes
import functools
import os
import sys
from importlib import metadata
from pathlib import Path

from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.runtime.built_for import built_for, this_machine

ENVIRONMENT_NAME = "EDGE_EMBED_LIBRARY"
_DISTRIBUTION = "edge-embed"


def get_library_path() -> Path:
    """Return the absolute path of the operator library, for ``register_custom_ops_library`` of ONNX Runtime.

    The environment variable ``EDGE_EMBED_LIBRARY`` has priority. Without it, the library that was installed with this
    package is used. The library is loaded to check its version.

    Returns:
        The absolute path.

    Raises:
        BadInputError: ``EDGE_EMBED_LIBRARY`` does not name a file, or the library is not an edge-embed library of this
            version.
        EdgeEmbedError: the package is not installed, or was installed without its library.
    """
    override = os.environ.get(ENVIRONMENT_NAME)
    path = Path(os.path.realpath(Path(override).expanduser())) if override else installed_path("edge_embed_ops")
    if not path.is_file() or not path.stat().st_size:  # also files of /proc, whose reading may block
        raise _missing(path, from_environment=bool(override))
    _check_version(path)
    return path


def get_delegate_path() -> Path:
    """Return the absolute path of the TFLite delegate, for ``load_delegate`` of LiteRT or TensorFlow Lite.

    The delegate calls the operator library and lies beside it, in the folder that `get_library_path` returns.

    Returns:
        The absolute path.

    Raises:
        BadInputError: as `get_library_path`.
        EdgeEmbedError: as `get_library_path`, or there is no delegate beside the library.
    """
    library = get_library_path()
    path = library.with_name(_file_name("edge_embed_tflite"))
    if not path.is_file():
        raise EdgeEmbedError(
            f"expected the TFLite delegate at {path}, beside the operator library, found none: install the package "
            "again on Linux or macOS; a freestanding operator library has none"
        )
    return path


def installed_path(name: str) -> Path:
    """Return the installation path of a library of this package.

    Raises:
        EdgeEmbedError: the package is not installed.
    """
    # The installed distribution is asked, not __file__: in an editable install, or with a checkout first on sys.path,
    # the Python files are in another place than the libraries that CMake built.
    return Path(str(_distribution().locate_file(f"edge_embed/runtime/{_file_name(name)}"))).resolve()


def installed_library(name: str) -> ctypes.CDLL:
    """Return a loaded library of this package other than the operator library, which has other locations too.

    Raises:
        EdgeEmbedError: it is missing, or this system cannot load it.
    """
    path = installed_path(name)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise EdgeEmbedError(
            f"the library {path} cannot be loaded ({error}): install the package again (`make install` in a checkout)"
        ) from error


def installed_program(name: str) -> Path:
    """Return the installation path of a program of this package.

    Raises:
        EdgeEmbedError: the package is not installed, or was installed without the program.
    """
    path = Path(str(_distribution().locate_file(f"edge_embed/runtime/{name}"))).resolve()
    if not path.is_file():
        raise EdgeEmbedError(f"expected the program {path}, found none: install the package again on Linux or macOS")
    return path


def _file_name(name: str) -> str:
    if sys.platform == "win32":
        return f"{name}.dll"
    return f"lib{name}.{'dylib' if sys.platform == 'darwin' else 'so'}"


def _distribution() -> metadata.Distribution:
    try:
        return metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError as error:
        raise EdgeEmbedError(
            f"package {_DISTRIBUTION} is not installed for {sys.executable}, so it has no version and no "
            "operator library: run `make install` in a checkout, or install the wheel"
        ) from error


def _missing(path: Path, *, from_environment: bool) -> EdgeEmbedError:
    if from_environment:
        return BadInputError(
            f"{ENVIRONMENT_NAME} names {path}, which is not a file: set it to the operator library, or unset it"
        )
    # The wheel of another system has a library of another name.
    others = sorted(path.parent.glob(f"*{path.stem.removeprefix('lib')}.*"))
    found = f"{others[0].name} for {built_for(others[0])}" if others else "none"
    return EdgeEmbedError(
        f"expected the operator library at {path} for {this_machine()}, found {found}: install the package again "
        f"(`make install` in a checkout), or set {ENVIRONMENT_NAME} to a library built from runtime_ops"
    )


def _check_version(path: Path) -> None:
    expected = package_version()
    got = _version_of(path)
    if got != expected:
        raise BadInputError(
            f"operator library {path} is of version {got}, expected {expected} as the Python package: "
            f"install both together (`make install` in a checkout), or unset {ENVIRONMENT_NAME}"
        )


@functools.cache
def package_version() -> str:
    """Return the version of the installed package, cached: parsing its metadata takes a tenth of a validation."""
    return _distribution().version


def _version_of(path: Path) -> str:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BadInputError(
            f"got operator library {path}, which this system cannot load ({error}): it is for {built_for(path)}, "
            f"expected one for {this_machine()}; install the package again on this machine, or unset {ENVIRONMENT_NAME}"
        ) from error
    try:
        ee_version = library.ee_version
    except AttributeError as error:
        raise BadInputError(
            f"got {path}, which has no function ee_version: expected the operator library of {_DISTRIBUTION}"
        ) from error
    ee_version.argtypes = []
    ee_version.restype = ctypes.c_char_p
    return bytes(ee_version() or b"none").decode("utf-8", "replace")
