"""Facts about a built library, read by LIEF: processor, exported and imported names, oldest system."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import lief

from edge_embed.errors import BadInputError
from edge_embed.packages.archive import MAGIC, read_members
from edge_embed.packages.platforms import Format
from edge_embed.packages.universal import split_slices

lief.disable_leak_warning()  # else it prints a list at the end of a process that keeps, say, a traceback
_ELF = {lief.ELF.ARCH.X86_64: "x86-64", lief.ELF.ARCH.AARCH64: "arm64", lief.ELF.ARCH.ARM: "arm"}
_PE = {lief.PE.Header.MACHINE_TYPES.AMD64: "x86-64", lief.PE.Header.MACHINE_TYPES.ARM64: "arm64"}
_MACHO = {lief.MachO.Header.CPU_TYPE.X86_64: "x86-64", lief.MachO.Header.CPU_TYPE.ARM64: "arm64"}
_GLIBC = "GLIBC_"
_MACHO_MAGIC = (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe")
_N_EXT, _N_TYPE = 0x01, 0x0E  # bits of a symbol's type, from <mach-o/nlist.h>: visible to others, defined
_OF_LINKER = ("__mh_dylib_header", "___dso_handle")  # exported by every library of zig for macOS


@dataclass(frozen=True)
class Binary:
    """A library for one processor.

    Attributes:
        binary_format: format of the file.
        processor: name of the processor.
        exports: names that others can call.
        imports: names that it calls in other libraries.
        needed: libraries that the loader must find.
        minimum: oldest system: version of glibc, of macOS or of iOS; empty if the file names none.
        system: ``MACOS``, ``IOS`` or ``IOS_SIMULATOR``; empty in other formats.
        alignment: alignment of its segments in bytes; 0 if the format has none.
        is_signed: whether it has a signature.
    """

    binary_format: Format
    processor: str
    exports: frozenset[str]
    imports: frozenset[str]
    needed: tuple[str, ...]
    minimum: str = ""
    system: str = ""
    alignment: int = 0
    is_signed: bool = False


def read_binaries(path: Path) -> list[Binary]:
    """Return the libraries in a file: one for each processor.

    Raises:
        BadInputError: if it is no library in a known format.
    """
    lief.logging.disable()  # it prints about parts that it does not know
    return [_read(path, data) for data in split_slices(path.read_bytes())]


def _read(path: Path, data: bytes) -> Binary:
    if data.startswith(MAGIC):
        return _archive(path, data)
    if data.startswith(b"\x7fELF") and (elf := lief.ELF.parse(data)) is not None:
        return _elf(elf)
    if data.startswith(_MACHO_MAGIC) and (macho := _parse_macho(data)) is not None:
        return _macho(macho)
    if data.startswith(b"MZ") and (pe := lief.PE.parse(data)) is not None:
        return _pe(pe)
    raise BadInputError(f"{path}: got no ELF, Mach-O or PE file, expected a library")


def _elf(binary: lief.ELF.Binary) -> Binary:
    versions = [
        str(version.name).removeprefix(_GLIBC)
        for requirement in binary.symbols_version_requirement
        for version in requirement.get_auxiliary_symbols()
        if str(version.name).startswith(_GLIBC)
    ]
    loaded = [segment.alignment for segment in binary.segments if segment.type == lief.ELF.Segment.TYPE.LOAD]
    return Binary(
        "ELF",
        _ELF.get(binary.header.machine_type, str(binary.header.machine_type)),
        _names(binary.exported_symbols),
        _names(binary.imported_symbols),
        tuple(str(name) for name in binary.libraries),
        max(versions, key=as_numbers, default=""),
        alignment=min(loaded, default=0),
    )


def _parse_macho(data: bytes) -> lief.MachO.Binary | None:
    found = lief.MachO.parse(data)
    return None if found is None else found.at(0)


def _macho(binary: lief.MachO.Binary) -> Binary:
    own = {symbol for symbol in _names(binary.exported_symbols) if symbol not in _OF_LINKER}
    libraries = [library for library in binary.libraries if library.command != lief.MachO.LoadCommand.TYPE.ID_DYLIB]
    version = binary.build_version.minos if binary.build_version else []
    return Binary(
        "Mach-O",
        _MACHO.get(binary.header.cpu_type, str(binary.header.cpu_type)),
        frozenset(name.removeprefix("_") for name in own),
        frozenset(name.removeprefix("_") for name in _names(binary.imported_symbols)),
        tuple(str(library.name) for library in libraries),
        ".".join(str(number) for number in version[:2]),
        binary.build_version.platform.name if binary.build_version else "",
        is_signed=binary.has_code_signature,
    )


def _pe(binary: lief.PE.Binary) -> Binary:
    exports = binary.get_export()
    return Binary(
        "PE",
        _PE.get(binary.header.machine, str(binary.header.machine)),
        frozenset() if exports is None else _names(exports.entries),
        frozenset(str(entry.name) for library in binary.imports for entry in library.entries),
        tuple(str(library.name) for library in binary.imports),
        is_signed=binary.has_signatures,
    )


def _archive(path: Path, data: bytes) -> Binary:
    """Return the objects of a static library as one: what one of them calls and another defines is no import."""
    objects = [_object(name, content) for name, content in read_members(data)]
    processors = {part.processor for part in objects}
    if len(processors) != 1:
        raise BadInputError(f"{path}: got objects for {sorted(processors)}, expected those of one processor")
    exports = frozenset().union(*(part.exports for part in objects))
    imports = frozenset().union(*(part.imports for part in objects)) - exports
    oldest = max((part.minimum for part in objects), key=as_numbers)
    return Binary(objects[0].binary_format, objects[0].processor, exports, imports, (), oldest, objects[0].system)


def _object(name: str, content: bytes) -> Binary:
    macho = _parse_macho(content) if content.startswith(_MACHO_MAGIC) else None
    if macho is not None:
        return _macho_object(macho)
    elf = lief.ELF.parse(content) if content.startswith(b"\x7fELF") else None
    if elf is None:
        raise BadInputError(f"{name}: got no ELF or Mach-O object")
    public = [symbol for symbol in elf.symbols if symbol.binding != lief.ELF.Symbol.BINDING.LOCAL]
    defined = [symbol for symbol in public if symbol.shndx != 0]
    return Binary(
        "ELF",
        _ELF.get(elf.header.machine_type, str(elf.header.machine_type)),
        _names(defined),
        _names(symbol for symbol in public if symbol.shndx == 0),
        (),
    )


def _macho_object(binary: lief.MachO.Binary) -> Binary:
    public = [symbol for symbol in binary.symbols if symbol.raw_type & _N_EXT]
    defined = [symbol for symbol in public if symbol.raw_type & _N_TYPE]
    undefined = [symbol for symbol in public if not symbol.raw_type & _N_TYPE]
    facts = _macho(binary)
    exports, imports = (frozenset(name.removeprefix("_") for name in _names(part)) for part in (defined, undefined))
    return replace(facts, exports=exports, imports=imports)


def _names(symbols: Iterable[object]) -> frozenset[str]:
    return frozenset(str(getattr(symbol, "name", "")) for symbol in symbols) - {""}


def as_numbers(version: str) -> tuple[int, ...]:
    """Return a version such as ``2.17`` for comparison; an empty one is the oldest."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())
