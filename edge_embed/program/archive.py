"""Read-only access to the zip archive of a ``torch.export`` program, without unpickling or copying.

Members are stored uncompressed, so a weight is a range of the memory-mapped file. Every member's CRC-32
is checked when it is opened: a flipped bit is reported, not computed with.
"""

import json
import math
import mmap
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edge_embed.errors import BadInputError

# ScalarType numbers of torch's export schema, for the types a weight or a graph value may have.
DTYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
}
_STRIDED = 7
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_CHECK_BLOCK = 8 << 20
_MAX_JSON_BYTES = 512 << 20


class Archive:
    """The members of one archive by name, without the top folder that torch puts them in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tensors: dict[str, Tensor] = {}
        try:
            with path.open("rb") as file, zipfile.ZipFile(file) as archive:
                members = [member for member in archive.infolist() if not member.is_dir()]
                # A private mapping: tensors over it count as writable for torch, the file stays as it is.
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise BadInputError(f"{path}: cannot be read ({error.strerror})") from error
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, struct.error) as error:
            raise self.damaged(f"not a whole zip archive ({error})") from error
        self._spans: dict[str, tuple[int, int]] = {}
        for member in members:
            name = member.filename.partition("/")[2]
            if name in self._spans:
                raise self.damaged(f"two members are named {name}")
            self._spans[name] = self._span(member)

    def damaged(self, what: str) -> BadInputError:
        """The error for a file whose structure is not what torch writes."""
        return BadInputError(f"{self.path}: damaged or not a saved model: {what}; save the model again")

    def __contains__(self, name: str) -> bool:
        return name in self._spans

    def _span(self, member: zipfile.ZipInfo) -> tuple[int, int]:
        """First byte and length of a member, after checking its header, bounds and CRC-32."""
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
            raise self.damaged(f"member {member.filename} is compressed")
        header_end = member.header_offset + _LOCAL_HEADER.size
        if header_end > len(self._map):
            raise self.damaged(f"member {member.filename} lies outside the file")
        header = _LOCAL_HEADER.unpack(self._map[member.header_offset : header_end])
        begin = header_end + header[-2] + header[-1]  # lengths of name and extra field
        if header[0] != b"PK\x03\x04" or begin + member.file_size > len(self._map):
            raise self.damaged(f"member {member.filename} lies outside the file")
        if self._crc(begin, member.file_size) != member.CRC:
            raise self.damaged(f"the checksum of {member.filename} does not match")
        return begin, member.file_size

    def _crc(self, begin: int, size: int) -> int:
        crc, view = 0, memoryview(self._map)
        for start in range(begin, begin + size, _CHECK_BLOCK):
            crc = zlib.crc32(view[start : min(start + _CHECK_BLOCK, begin + size)], crc)
            self.release()
        return crc

    def release(self) -> None:
        """Give the pages read so far back to the system; they count as this process's memory otherwise."""
        if hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def read(self, name: str) -> bytes:
        """The bytes of a member."""
        if name not in self._spans:
            raise self.damaged(f"member {name} is missing")
        begin, size = self._spans[name]
        return self._map[begin : begin + size]

    def read_json(self, name: str) -> dict[str, Any]:
        """A member that holds a JSON object."""
        if name in self._spans and self._spans[name][1] > _MAX_JSON_BYTES:
            raise self.damaged(f"{name} is too large")
        try:
            content = json.loads(self.read(name))
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"{name} is not JSON ({error})") from error
        if not isinstance(content, dict):
            raise self.damaged(f"{name} holds no JSON object")
        return content

    def tensors(self, folder: str, config: str) -> dict[str, Tensor]:
        """All tensors that ``<folder>/<config>`` lists, by their names in the model.

        Two names over one stored tensor (a shared or tied weight) give the same object.
        """
        entries = self.read_json(f"{folder}/{config}").get("config")
        if not isinstance(entries, dict):
            raise self.damaged(f"{folder}/{config} lists no tensors")
        return {name: self._tensor(folder, name, entry) for name, entry in entries.items()}

    def _tensor(self, folder: str, name: str, entry: dict[str, Any]) -> Tensor:
        if entry.get("use_pickle") is not False:
            raise BadInputError(
                f"{self.path}: weight {name} is stored as a pickle, which can run code: refused. "
                "Save the model with edge_embed.save"
            )
        meta, member = entry["tensor_meta"], f"{folder}/{entry['path_name']}"
        identity = json.dumps([member, {**meta, "requires_grad": None}], sort_keys=True)
        if identity not in self._tensors:
            self._tensors[identity] = self._view(name, member, meta)
        return self._tensors[identity]

    def _view(self, name: str, member: str, meta: dict[str, Any]) -> Tensor:
        dtype = DTYPES.get(meta["dtype"])
        if dtype is None or meta["layout"] != _STRIDED:
            raise BadInputError(f"{self.path}: weight {name} has a type or layout that cannot be exported")
        sizes, strides = ([self._size(name, size) for size in meta[key]] for key in ("sizes", "strides"))
        offset = self._size(name, meta["storage_offset"])
        if len(sizes) != len(strides):
            raise self.damaged(f"weight {name} has {len(sizes)} sizes and {len(strides)} strides")
        begin, length = self._spans.get(member, (0, -1))
        needed = 0
        if 0 not in sizes:
            needed = offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        if length < needed * dtype.itemsize:
            raise self.damaged(f"weight {name} needs {needed * dtype.itemsize} bytes, {member} has {length}")
        if needed == 0 or math.prod(sizes) == 0:
            return torch.empty(sizes, dtype=dtype)
        buffer: Any = memoryview(self._map)[begin : begin + length // dtype.itemsize * dtype.itemsize]
        if begin % dtype.itemsize:
            buffer = bytearray(buffer)
        return torch.frombuffer(buffer, dtype=dtype).as_strided(sizes, strides, offset)

    def _size(self, name: str, value: Any) -> int:
        size = value.get("as_int") if isinstance(value, dict) else None
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**63:
            raise self.damaged(f"weight {name} has an impossible size {value!r}")
        return size

