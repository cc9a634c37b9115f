"""Job for the scripts: a folder with the model, its external data, and the options of the run (``job.mjs``)."""

import json
from dataclasses import dataclass
from pathlib import Path

from edge_embed.targets.target import RunOptions, Subject


@dataclass(frozen=True)
class WebPlace:
    """Place that runs onnxruntime-web.

    Attributes:
        subject: the model to run.
        runtime: folder of onnxruntime-web.
    """

    subject: Subject
    runtime: Path
    times_mean_something: bool = True


def write_job(folder: Path, subject: Subject, options: RunOptions, provider: str = "wasm") -> list[str]:
    """Add to a folder of cases (``0.in``, ``1.in``, ...) the other files that the scripts read.

    Returns:
        The names of all files to read, in the folder; those of the model are links to it.
    """
    cases = sorted(path.name for path in folder.glob("*.in"))
    beside = subject.model.absolute().parent
    data = [path.absolute().relative_to(beside).as_posix() for path in subject.data]
    for name in (subject.model.name, *data):
        link = folder / "subject" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(beside / name)
    job = {"model": subject.model.name, "data": data, "cases": len(cases)}
    job |= {"iterations": options.iterations, "threads": options.threads, "provider": provider}
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    return ["job.json", *cases, *(f"subject/{name}" for name in (subject.model.name, *data))]
