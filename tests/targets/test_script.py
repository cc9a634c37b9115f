"""Scripts that run a model in a process of their own end with the process that started them."""

import subprocess

from edge_embed.targets.process import run_tool
from edge_embed.targets.script import script_command


def test_script_gets_arguments_and_returns_output(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys\nif __name__ == '__main__':\n    print(*sys.argv[1:])")
    assert run_tool(script_command(str(script), "a b", 3), 60, what="the script").printed == "a b 3\n"


def test_script_ends_when_its_input_ends(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print('begun', flush=True)\nwhile True: pass")
    command = script_command(str(script))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        process.stdin.close()  # the system does this for a killed process
        assert process.wait(60) == 1
