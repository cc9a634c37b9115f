"""Origin of a model file, for a model card."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Provenance:
    """Origin of a model file.

    Attributes:
        source: name of the file or folder of the model that it was made from; empty for a module.
        sha256: hash of that file; empty for a module or a folder.
        base_model: id of the base model on the Hub; empty if it is unknown.
        licence: licence that was saved with the model; empty if none was.
        task: what the model does, as was saved with it or as its class says; empty if it is unknown.
    """

    source: str = ""
    sha256: str = ""
    base_model: str = ""
    licence: str = ""
    task: str = ""
