"""Worker program: prints the ids of an exported tokenizer, in a separate process because it may crash.

    python tokenizer_run.py MODEL LIBRARY BATCHES.json  ->  [[{output: rows}, ...]]: for each batch of texts its outputs

Nothing of this package is imported here.
"""

import json
import sys
from pathlib import Path


def main(model: str, library: str, batches: str) -> None:
    """Run the tokenizer and print its outputs."""
    import numpy as np  # noqa: PLC0415
    import onnxruntime as ort  # noqa: PLC0415

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(library)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = []
    for texts in json.loads(Path(batches).read_text(encoding="utf-8")):
        outputs = session.run(names, {"text": np.array(texts, dtype=object)})
        found.append({name: array.tolist() for name, array in zip(names, outputs, strict=True)})
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
