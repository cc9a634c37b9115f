"""Next tokens of texts, predicted by an exported ONNX file and by the program before compression."""

from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.lowering.graph import Progress
from edge_embed.program.program import Program
from edge_embed.report.results.text_predictions import TextPredictions
from edge_embed.validation import paths
from edge_embed.validation.decoder import Decoder
from edge_embed.validation.next_tokens import program_texts
from edge_embed.validation.pair.onnx_pair import session_run


def exported_texts(
    original: Program, exported: Path, texts: Path, tokenizer: Path | None, progress: Progress
) -> TextPredictions:
    """Compare the predictions of an exported file with those of the program before compression.

    Args:
        original: the program before compression, with the inputs and outputs of the file.
        exported: the ``.onnx`` file.
        texts: text in UTF-8.
        tokenizer: ``tokenizer.json`` of the model; by default the one in the folder of the original.
        progress: called with (step, done, total).

    Raises:
        BadInputError: as `program_texts`, or the file has other inputs or outputs.
    """
    session = paths.open_session(exported, portable=bool(paths.missing_library()))
    found = [[each.name for each in ports] for ports in (session.get_inputs(), session.get_outputs())]
    expected = [[each.name for each in original.inputs], list(original.output_names)]
    for what, names, wanted in zip(("inputs", "outputs"), found, expected, strict=True):
        if set(names) != set(wanted):
            got = f"texts: {exported}: got the {what} {', '.join(names):.300}"
            raise BadInputError(f"{got}, expected {', '.join(wanted):.300}: give the model before compression")
    for port in session.get_inputs():
        declared = next(each for each in original.inputs if each.name == port.name)
        differ = any(type(a) is type(b) is int and a != b for a, b in zip(port.shape, declared.shape, strict=False))
        if differ or len(port.shape) != len(declared.shape):
            got = f"texts: {exported}: got the input {port.name} {port.shape}"
            raise BadInputError(f"{got}, expected {[*declared.shape]}: give the model before compression")
    predicted = program_texts(original, texts, tokenizer)
    return predicted.compare(Decoder(original, session_run(exported, original.output_names)), progress)
