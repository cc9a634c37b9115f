"""Known attacks on saved programs: files that try to run code or to confuse a reader.

An archive is a dict from member name (below the top folder) to bytes, and an attack changes one in place. Each
payload would create the file ``canary``. The table of an attack states the expected result: `REFUSED`
(BadInputError) or `IGNORED` (the field is not read, so the program reads like a clean one).
"""

import functools
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.program.capture import write_archive

Members = dict[str, bytes]
Attack = Callable[[Members, Path], None]

MODEL = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"
SAMPLES = "data/sample_inputs/model.pt"
EXTRA = "extra/edge_embed.json"

# A module that no other code imports; hostile tree specs name it.
IMPORTED = "this"

REFUSED: dict[str, Attack] = {}
IGNORED: dict[str, Attack] = {}


class Net(nn.Module):
    """A small model with every kind of entry of a description: lists, shape arithmetic, constants, two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.table = DPQEmbedding(20, 8, 5, 2)
        self.head = nn.Linear(8, 4)
        self.register_buffer("scale", torch.ones(4))
        self.shift = torch.ones(4)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        rows = self.table(ids)
        left, right = rows.split(4, -1)
        positions = torch.arange(ids.shape[1] * 2)[: ids.shape[1]].unsqueeze(-1)
        return {
            "logits": self.head(rows) * self.scale + self.shift,
            "sides": left * right * mask.unsqueeze(-1) + positions,
        }


@functools.cache
def _clean() -> bytes:
    file = io.BytesIO()
    torch.manual_seed(0)
    examples = (torch.randint(0, 20, (2, 5)), torch.rand(2, 5))
    write_archive(Net(), file, examples, vocabulary=[f"w{i}" for i in range(20)], metadata={"task": "test"})
    return file.getvalue()


def clean() -> Members:
    """Return the members of a valid, small archive with every kind of member."""
    return unpack(_clean())


def unpack(archive: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name.partition("/")[2]: file.read(name) for name in file.namelist()}


def pack(members: Members, top: str = "archive/") -> bytes:
    """Return the uncompressed archive with right checksums."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(top + name), content)
    return file.getvalue()


def hostile(attack: Attack, canary: Path) -> bytes:
    """Return the clean archive after one attack."""
    members = clean()
    attack(members, canary)
    return pack(members)


class _Payload:
    """Object that unpickles to a call of `os.mkdir`: harmless, visible, and without a shell."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.canary),)


def pickled(canary: Path) -> bytes:
    """Return a ``torch.save`` file that creates ``canary`` when it is loaded."""
    file = io.BytesIO()
    torch.save(_Payload(canary), file)
    return file.getvalue()


def expression(canary: Path) -> str:
    """Return a Python expression that creates ``canary`` when it is evaluated."""
    return f"__import__('os').mkdir({str(canary)!r})"


def edit(members: Members, name: str, change: Callable[[Any], None]) -> None:
    """Change a JSON member in place."""
    content = json.loads(members[name])
    change(content)
    members[name] = json.dumps(content).encode()


def _attack(table: dict[str, Attack], member: str = MODEL) -> Callable[[Callable[[Any, str], None]], Any]:
    """Register an edit of the JSON in ``member``, which receives the payload as an expression too."""

    def register(change: Callable[[Any, str], None]) -> Callable[[Any, str], None]:
        def attack(members: Members, canary: Path) -> None:
            edit(members, member, lambda content: change(content, expression(canary)))

        table[change.__name__] = attack
        return change

    return register


def _graph(model: Any) -> Any:
    return model["graph_module"]["graph"]


def _call(target: str, *inputs: Any, output: str = "evil") -> dict[str, Any]:
    named = [{"name": f"a{at}", "arg": item, "kind": 1} for at, item in enumerate(inputs)]
    return {"target": target, "inputs": named, "outputs": [{"as_tensor": {"name": output}}], "metadata": {}}


# --- evaluated by torch.export.load, not read here ------------------------------------------------------


@_attack(IGNORED)
def expr_str_runs_code(model: Any, payload: str) -> None:
    for meta in _graph(model)["tensor_values"].values():
        for size in meta["sizes"]:
            if "as_expr" in size:
                size["as_expr"]["expr_str"] = payload


@_attack(IGNORED)
def guards_code_runs_code(model: Any, payload: str) -> None:
    model["guards_code"] = [payload, f"L['ids'].size()[0] == {payload}"]


def _tree(kind: str, context: Any) -> str:
    leaf = {"type": None, "context": None, "children_spec": []}
    return json.dumps([1, {"type": kind, "context": json.dumps(context), "children_spec": [leaf]}])


@_attack(IGNORED)
def tree_specs_import_modules(model: Any, payload: str) -> None:
    enum = {"__enum__": True, "fqn": f"{IMPORTED}:X", "name": "X"}
    factory = {"default_factory_module": IMPORTED, "default_factory_name": "X", "dict_context": ["x"]}
    for call in model["graph_module"]["module_call_graph"]:
        if call["signature"]:
            call["signature"]["in_spec"] = _tree("builtins.dict", [enum])
            call["signature"]["out_spec"] = _tree("collections.defaultdict", factory)


@_attack(IGNORED)
def tree_specs_name_types(model: Any, payload: str) -> None:
    model["graph_module"]["treespec_namedtuple_fields"] = {"os.system": {"class_name": "x", "fields": [payload]}}


@_attack(IGNORED)
def node_metadata_runs_code(model: Any, payload: str) -> None:
    for node in _graph(model)["nodes"]:
        node["metadata"] = {"stack_trace": payload, "nn_module_stack": payload, "torch_fn": f"{payload};x"}


@_attack(IGNORED)
def node_names_for_code_generation(model: Any, payload: str) -> None:
    for node in _graph(model)["nodes"]:
        node["name"] = f"x = {payload}\n#"


def weight_names_for_code_generation(members: Members, canary: Path) -> None:
    """Give a weight a name with code: any printable name is valid, as a key of a table and not as source code."""
    name = f"head.x); {expression(canary).replace('.', '')} #"
    for member in (WEIGHTS, MODEL):
        members[member] = members[member].replace(b'"head.weight"', json.dumps(name).encode())


IGNORED["weight_names_for_code_generation"] = weight_names_for_code_generation


# --- refused ----------------------------------------------------------------------------------------------


def samples_hold_a_pickle(members: Members, canary: Path) -> None:
    members[SAMPLES] = pickled(canary)


def weight_is_a_pickle(members: Members, canary: Path) -> None:
    members["data/weights/weight_0"] = pickled(canary)
    edit(members, WEIGHTS, lambda content: [entry.update(use_pickle=True) for entry in content["config"].values()])


def constant_is_an_opaque_object(members: Members, canary: Path) -> None:
    members["data/constants/opaque_obj_0"] = pickle.dumps(_Payload(canary))
    entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    edit(members, CONSTANTS, lambda content: content["config"].update(evil=entry))


def constant_is_a_custom_object(members: Members, canary: Path) -> None:
    members["data/constants/custom_obj_0"] = pickle.dumps(_Payload(canary))
    entry = {"path_name": "custom_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    edit(members, CONSTANTS, lambda content: content["config"].update(evil=entry))


for _function in (
    samples_hold_a_pickle,
    weight_is_a_pickle,
    constant_is_an_opaque_object,
    constant_is_a_custom_object,
):
    REFUSED[_function.__name__] = _function


@_attack(REFUSED)
def operator_writes_files(model: Any, payload: str) -> None:
    path = payload.partition("mkdir(")[2].strip("')")
    call = _call("torch.ops.aten.from_file.default", {"as_string": path}, {"as_bool": True}, {"as_int": 4})
    _graph(model)["nodes"].append(call)


@_attack(REFUSED)
def higher_order_operator(model: Any, payload: str) -> None:
    graph = {"name": "true", "graph": _graph(json.loads(json.dumps(model)))}
    _graph(model)["nodes"].append(_call("torch.ops.higher_order.cond", {"as_graph": graph}))


@_attack(REFUSED)
def input_is_a_custom_object(model: Any, payload: str) -> None:
    spec = {"custom_obj": {"arg": {"name": "obj", "class_fqn": "os.system"}, "custom_obj_name": "evil"}}
    model["graph_module"]["signature"]["input_specs"].append(spec)


@_attack(REFUSED)
def argument_is_a_custom_object(model: Any, payload: str) -> None:
    call = _call("torch.ops.aten.relu.default", {"as_custom_obj": {"name": "x", "class_fqn": "os.system"}})
    _graph(model)["nodes"].append(call)


@_attack(REFUSED)
def input_names_for_code_generation(model: Any, payload: str) -> None:
    name = f"ids):\n    {payload}\n#"
    graph = _graph(model)
    graph["tensor_values"][name] = graph["tensor_values"]["ids"]
    for spec in model["graph_module"]["signature"]["input_specs"]:
        if spec.get("user_input", {}).get("arg", {}).get("as_tensor", {}).get("name") == "ids":
            spec["user_input"]["arg"]["as_tensor"]["name"] = name


@_attack(REFUSED)
def input_takes_all_arguments(model: Any, payload: str) -> None:
    graph = _graph(model)
    graph["tensor_values"]["*ids"] = graph["tensor_values"]["ids"]
    for spec in model["graph_module"]["signature"]["input_specs"]:
        if "user_input" in spec:
            spec["user_input"]["arg"]["as_tensor"]["name"] = "*ids"


@_attack(REFUSED)
def value_name_with_control_characters(model: Any, payload: str) -> None:
    _graph(model)["nodes"][0]["outputs"] = [{"as_sym_int": {"as_name": f"x\x1b[2J\n{payload}"}}]


@_attack(REFUSED)
def buffer_is_changed(model: Any, payload: str) -> None:
    spec = {"buffer_mutation": {"arg": {"name": "evil"}, "buffer_name": "scale"}}
    model["graph_module"]["signature"]["output_specs"].insert(0, spec)


def _target(name: str, target: str) -> None:
    def change(model: Any, payload: str) -> None:
        _graph(model)["nodes"].append(_call(target, {"as_string": payload}))

    change.__name__ = f"target_{name}"
    _attack(REFUSED)(change)


for _name, _text in {
    "eval": "builtins.eval",
    "system": "os.system",
    "attrgetter": "_operator.attrgetter",
    "methodcaller": "_operator.methodcaller",
    "call": "_operator.call",
    "loader": "math.__loader__",
    "dunder_packet": "torch.ops.aten.__class__",
    "dunder_overload": "torch.ops.aten.relu.__class__",
    "load_library": "torch.ops.load_library",
    "own_namespace": "torch.ops.edge_embed.__class__.default",
    "in_place": "torch.ops.aten.relu_.default",
    "out_variant": "torch.ops.aten.relu.out",
    "set_": "torch.ops.aten.set_.source_Storage",
    "as_strided": "torch.ops.aten.as_strided.default",
    "reshape_alias": "torch.ops.aten._reshape_alias.default",
    "random": "torch.ops.aten.rand_like.default",
    "save": "torch.save",
    "load": "torch.load",
}.items():
    _target(_name, _text)
