"""Kinds of files, and the remedies that several kinds share."""

from dataclasses import dataclass

SAVE = "give a file from edge_embed.save(model, path, example_inputs)"
MATRIX = "save its embedding matrix with numpy.save, and give that file"
EXPORT = "export it to .onnx or .tflite (edge-embed export), and give that file after the saved model"
EXPORTED = "convert the model to TFLite or ONNX, and give that file"
UNPACK = "unpack it, and give the file in it"
JOINED = (
    "merge the folder into one file: python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER weights.pt"
)
EMBED = "give a model, or a file of vectors"


@dataclass(frozen=True)
class FileKind:
    """Kind of a file, with its article, and the remedy for it."""

    name: str
    remedy: str

    def __str__(self) -> str:
        return f"is {self.name}: {self.remedy}"
