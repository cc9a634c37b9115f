"""Program that runs TFLite files with a runtime of the format, in a process of its own, which a crash ends.

No package of this repository is imported: one of the runtimes lives in an environment without them. Each line on stdin
is an order in JSON, each line on stdout its answer:

    {"model": path, "delegate": path or "", "options": {}, "folder": path}  ->  {"replaced": 1} or {"error": text}

In inputs.npz of the folder, the arrays a0_0, a0_1, ... are the inputs of the first run, a1_0, ... of the second;
outputs.npz uses the same names. `replaced` counts the kernels of the delegate.
"""

import json
import sys

import numpy as np

try:
    from ai_edge_litert import interpreter as runtime
except ImportError:
    from tflite_runtime import interpreter as runtime


def open_model(order, **options):
    delegates = [runtime.load_delegate(order["delegate"], order["options"])] if order["delegate"] else None
    return runtime.Interpreter(order["model"], experimental_delegates=delegates, **options)


def count_kernels(order):
    """Count kernels of our delegate; delegates that runtimes apply on their own are not counted."""
    resolver = runtime.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    operators = open_model(order, experimental_op_resolver_type=resolver)._get_ops_details()
    return sum(operator["op_name"] == "DELEGATE" for operator in operators)


def run(order):
    interpreter = open_model(order)
    results = {}
    given = np.load(order["folder"] + "/inputs.npz")
    for number in sorted({name.split("_")[0] for name in given}):
        for i, detail in enumerate(interpreter.get_input_details()):
            interpreter.resize_tensor_input(detail["index"], given[f"{number}_{i}"].shape)
        interpreter.allocate_tensors()
        for i, detail in enumerate(interpreter.get_input_details()):
            interpreter.set_tensor(detail["index"], given[f"{number}_{i}"])
        interpreter.invoke()
        for i, detail in enumerate(interpreter.get_output_details()):
            results[f"{number}_{i}"] = interpreter.get_tensor(detail["index"])
    np.savez(order["folder"] + "/outputs.npz", **results)
    return count_kernels(order)


for line in sys.stdin:
    try:
        answer = {"replaced": run(json.loads(line))}
    except (RuntimeError, ValueError) as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
