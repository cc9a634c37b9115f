"""Contracts with users, recorded in the text files of this folder.

After an intended change, this command writes the files again: python tests/contract/test_contract.py
"""

import difflib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from command_options import command_lines
from exported_files import onnx_lines, packed_lines, tflite_lines
from message_templates import message_lines
from public_names import public_lines
from report_keys import exit_lines, report_lines
from torch_operators import operator_lines

COMMAND = "python tests/contract/test_contract.py"
PARTS: dict[str, Callable[[], Iterable[str]]] = {
    "commands": command_lines,
    "public_names": public_lines,
    "torch_operators": operator_lines,
    "exit_codes": exit_lines,
    "report_keys": report_lines,
    "messages": message_lines,
    "packed_files": packed_lines,
    "onnx_files": onnx_lines,
    "tflite_files": tflite_lines,
}


def snapshot(part: str) -> Path:
    return Path(__file__).with_name(f"{part}.txt")


def text_of(part: str) -> str:
    return "".join(f"{line}\n" for line in PARTS[part]())


@pytest.mark.parametrize("part", PARTS)
def test_contract_is_as_committed(part: str) -> None:
    expected, got = snapshot(part).read_text("utf-8"), text_of(part)
    changes = difflib.unified_diff(expected.splitlines(), got.splitlines(), f"{part}.txt", "now", "", "", 0, "")
    assert got == expected, "\n".join((*changes, "", f"on purpose? then: {COMMAND}"))


if __name__ == "__main__":
    for name in PARTS:
        snapshot(name).write_text(text_of(name), "utf-8")
