"""Read-only access to the zip archives that torch writes, without unpickling or copying.

Members are stored uncompressed, so a weight is a range of the memory-mapped file. Every member's bounds and
CRC-32 are checked when the archive is opened: a flipped bit is reported, not computed with. Nothing is
ever extracted, and nothing is read that the archive's directory does not list exactly once.
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
# The description of a graph takes about 2 KB an operator; parsed JSON takes up to 20 times its text.
_MAX_JSON_BYTES = 128 << 20


class Archive:
    """The members of one archive by name, without the top folder that torch puts them in.

    Args:
        path: the file, also named in errors.
        content: the archive itself where it is a member of the file at ``path``.

    Raises:
        BadInputError: if the file cannot be read or is not a whole, plain archive.
    """

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        self.path = path
        if content is None and path.exists() and not path.is_file():
            raise BadInputError(f"{path}: is no file (a folder or a device): give the path of a saved model")
        try:
            with path.open("rb") if content is None else io.BytesIO(content) as file:
                with zipfile.ZipFile(file) as archive:
                    members = [member for member in archive.infolist() if not member.is_dir()]
                self.content = content or mapped(file)
        except BadInputError as error:
            raise BadInputError(f"{path}: {error}") from error
        except Exception as error:  # zipfile raises a dozen unrelated types on a damaged directory
            if isinstance(error, OSError) and error.strerror:
                raise BadInputError(f"{path}: cannot be read ({error.strerror})") from error
            raise self.damaged(f"not a whole zip archive ({error})") from error
        self._spans: dict[str, tuple[int, int]] = {}
        self._read_directory(members)

    def _read_directory(self, members: list[zipfile.ZipInfo]) -> None:
        folders = {member.orig_filename.partition("/")[0] for member in members}
        if len(folders) > 1:
            raise self.damaged(f"its members lie in {len(folders)} top folders, expected one")
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
        """The error for a file whose structure is not what torch writes."""
        return BadInputError(f"{self.path}: damaged or not a saved model: {what}; save the model again")

    def __contains__(self, name: str) -> bool:
        return name in self._spans

    def _name(self, member: zipfile.ZipInfo) -> str:
        """The name below the top folder; nothing is extracted, so this refuses only what torch never writes."""
        name = member.orig_filename
        if stat.S_ISLNK(member.external_attr >> 16):
            raise self.damaged(f"member {name!r:.200} is a link")
        if not name.isprintable() or "\\" in name or {"", ".", ".."} & set(name.split("/")) or "/" not in name:
            raise self.damaged(f"member {name!r:.200} has an impossible name")
        return name.partition("/")[2]

    def _span(self, member: zipfile.ZipInfo) -> tuple[int, int]:
        """First byte and length of a member, after checking its header and bounds."""
        stored = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
        if not stored or member.flag_bits & _ENCRYPTED:
            raise self.damaged(f"member {member.filename} is compressed or encrypted")
        begin = member.header_offset + _LOCAL_HEADER.size
        if not 0 <= member.header_offset <= begin <= len(self.content):
            raise self.damaged(f"member {member.filename} lies outside the file")
        header = _LOCAL_HEADER.unpack(self.content[member.header_offset : begin])
        begin += header[-2] + header[-1]  # lengths of name and extra field
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
        """Give the pages read so far back to the system; they count as this process's memory otherwise."""
        if isinstance(self.content, mmap.mmap) and hasattr(self.content, "madvise"):
            self.content.madvise(mmap.MADV_DONTNEED)

    def span(self, name: str) -> tuple[int, int]:
        """First byte and length of a member in ``content``."""
        if name not in self._spans:
            raise self.damaged(f"member {name:.200} is missing")
        return self._spans[name]

    def read(self, name: str) -> bytes:
        """The bytes of a member."""
        begin, size = self.span(name)
        return bytes(self.content[begin : begin + size])

    def read_json(self, name: str) -> dict[str, Any]:
        """A member that holds a JSON object."""
        if self.span(name)[1] > _MAX_JSON_BYTES:
            raise self.damaged(f"{name} is too large")
        try:
            content = json.loads(self.read(name).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"{name} is not JSON ({error})") from error
        if not isinstance(content, dict):
            raise self.damaged(f"{name} holds no JSON object")
        return content
