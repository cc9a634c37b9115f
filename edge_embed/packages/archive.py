"""Static libraries: the members of an ``ar`` archive, in GNU's and in BSD's format."""

from collections.abc import Iterator

from edge_embed.errors import BadInputError

MAGIC = b"!<arch>\n"
_HEADER = 60


def read_members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each object file, without symbol tables and name tables.

    Raises:
        BadInputError: if it is no complete archive.
    """
    long_names, at = b"", len(MAGIC)
    while at < len(data):
        header = data[at : at + _HEADER]
        size = header[48:58].strip()
        start = at + _HEADER
        if len(header) < _HEADER or not size.isdigit() or start + int(size) > len(data):
            raise BadInputError("the archive ends within a member: build it again")
        content, name = data[start : start + int(size)], header[:16].rstrip(b" ")
        at = start + int(size) + int(size) % 2
        if name == b"//":
            long_names = content
            continue
        if name.startswith(b"#1/"):  # BSD: the name is before the content
            length = int(name[3:])
            name, content = content[:length].rstrip(b"\0"), content[length:]
        elif name[:1] == b"/" and name[1:].isdigit():
            name = long_names[int(name[1:]) :].partition(b"/\n")[0]
        if name not in (b"/", b"/SYM64/") and not name.startswith(b"__.SYMDEF"):
            yield name.rstrip(b"/").decode(), content
