"""Read-only access to the zip archives that torch writes, without unpickling or copying.

Members are stored uncompressed, so a weight is a range of the memory-mapped file. The bounds and the CRC-32 of every
member are checked when the archive is opened, so a flipped bit is reported. Nothing is extracted, and only members that
the archive's directory lists exactly once are read.
"""

import io
import json
import mmap
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from edge_embed.errors import BadInputError
from edge_embed.input_file import mapped

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_ENCRYPTED = 1
_CHECK_BLOCK = 8 << 20
# The description of a graph takes about 2 KB for each operator; parsed JSON takes up to 20 times its text.
_MAX_JSON_BYTES = 128 << 20


class Archive:
    """Members of one archive by name, without the top folder that torch puts them in.

    Args:
        path: the file, also named in errors.
        content: bytes of the archive, if it is a member of the file at ``path``.

    Raises:
        BadInputError: if the file cannot be read or is not a complete, plain archive.
    """

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        self.path = path
        if content is None and path.exists() and not path.is_file():
            raise BadInputError(f"{path}: got a folder or a device, expected a file: give the path of a saved model")
        try:
            with path.open("rb") if content is None else io.BytesIO(content) as file:
                with zipfile.ZipFile(file) as archive:
                    members = [member for member in archive.infolist() if not member.is_dir()]
                self.content = content or mapped(file)
        except BadInputError as error:
            raise BadInputError(f"{path}: {error}") from error
        except Exception as error:  # zipfile raises many unrelated types for a damaged directory
            if isinstance(error, OSError) and error.strerror:
                raise BadInputError(f"{path}: cannot be read ({error.strerror})") from error
            raise self.damaged(f"not a complete zip archive ({error})") from error
        self._spans: dict[str, tuple[int, int]] = {}
        self._read_directory(members)

    def _read_directory(self, members: list[zipfile.ZipInfo]) -> None:
        folders = {member.orig_filename.partition("/")[0] for member in members}
        if len(folders) > 1:
            raise self.damaged(f"got members in {len(folders)} top-level folders, expected one")
        for member in members:
            name = self._name(member)
            if name in self._spans:
                raise self.damaged(f"two members are named {name}")
            self._spans[name] = self._span(member)
        end_of_last = 0
        for begin, size in sorted(self._spans.values()):
            if begin < end_of_last:
                raise self.damaged("its members overlap")
            end_of_last = begin + size
        for member in members:
            if self._crc(*self._spans[self._name(member)]) != member.CRC:
                raise self.damaged(f"the checksum of {self._name(member)} does not match")

    def damaged(self, what: str) -> BadInputError:
        """Return the error for a file whose structure torch does not write."""
        return BadInputError(f"{self.path}: damaged or not a saved model: {what}; save the model again")

    def __contains__(self, name: str) -> bool:
        return name in self._spans

    def _name(self, member: zipfile.ZipInfo) -> str:
        """Return the name below the top folder.

        Nothing is extracted, so this refuses only names that torch never writes.
        """
        name = member.orig_filename
        if stat.S_ISLNK(member.external_attr >> 16):
            raise self.damaged(f"member {name!r:.200} is a link")
        if not name.isprintable() or "\\" in name or {"", ".", ".."} & set(name.split("/")) or "/" not in name:
            raise self.damaged(f"member {name!r:.200} has an invalid name")
        return name.partition("/")[2]

    def _span(self, member: zipfile.ZipInfo) -> tuple[int, int]:
        """Return first byte and length of a member after a check of its header and bounds."""
        stored = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
        if not stored or member.flag_bits & _ENCRYPTED:
            raise self.damaged(f"member {member.filename} is compressed or encrypted")
        begin = member.header_offset + _LOCAL_HEADER.size
        if not 0 <= member.header_offset <= begin <= len(self.content):
            raise self.damaged(f"member {member.filename} lies outside the file")
        header = _LOCAL_HEADER.unpack(self.content[member.header_offset : begin])
        begin += header[-2] + header[-1]  # lengths of the name and the extra field
        if header[0] != b"PK\x03\x04" or begin + member.file_size > len(self.content):
            raise self.damaged(f"member {member.filename} lies outside the file")
        return begin, member.file_size

    def _crc(self, begin: int, size: int) -> int:
        crc, view = 0, memoryview(self.content)
        for start in range(begin, begin + size, _CHECK_BLOCK):
            crc = zlib.crc32(view[start : min(start + _CHECK_BLOCK, begin + size)], crc)
            self.release()
        return crc

    def release(self) -> None:
        """Return the pages read so far to the system; they would count as this process's memory."""
        if isinstance(self.content, mmap.mmap) and hasattr(self.content, "madvise"):
            self.content.madvise(mmap.MADV_DONTNEED)

    def span(self, name: str) -> tuple[int, int]:
        """Return first byte and length of a member in ``content``."""
        if name not in self._spans:
            raise self.damaged(f"member {name:.200} is missing")
        return self._spans[name]

    def read(self, name: str) -> bytes:
        """Return the bytes of a member."""
        begin, size = self.span(name)
        return bytes(self.content[begin : begin + size])

    def read_json(self, name: str) -> dict[str, Any]:
        """Return a member that holds a JSON object."""
        if self.span(name)[1] > _MAX_JSON_BYTES:
            raise self.damaged(f"{name} is too large")
        try:
            content = json.loads(self.read(name).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"{name} is not JSON ({error})") from error
        if not isinstance(content, dict):
            raise self.damaged(f"{name} contains no JSON object")
        return content
