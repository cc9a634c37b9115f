"""Agreement of the configuration and the weights of a transformers model that was loaded."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from edge_embed.errors import BadInputError

_LOG = logging.getLogger(__name__)
_SHOWN = 5  # names
_AGAIN = "save the whole model with its save_pretrained"
_CONFIG = "config.json"


def check_loaded(folder: Path, model: Any, loaded: Mapping[str, Any], integers: Collection[str]) -> None:
    """Raise for a model with random or wrong parts; warn about unused parts of the folder.

    Args:
        folder: folder of the model.
        model: the model with its weights.
        loaded: the names of keys that did not fit, as transformers returns them.
        integers: keys of the files whose numbers are integers.

    Raises:
        BadInputError: the message names the key.
    """
    for key, got, expected in sorted(loaded["mismatched_keys"]):
        raise BadInputError(f"{key}: got {list(got)}, expected {list(expected)} of {_CONFIG}: {_AGAIN}")
    if lacking := sorted(loaded["missing_keys"]):
        raise BadInputError(f"weights are missing: {_listed(lacking)}: {_AGAIN}")
    for key, weight in model.named_parameters():
        if key in integers and weight.is_floating_point():
            raise BadInputError(f"{key}: got integers, expected floats: give the model before quantisation")
    _check_ties(model)
    unused = sorted(loaded["unexpected_keys"])
    _check_layers(model, unused)
    if unused:
        _LOG.warning("%s: %s does not use %s, which are left out", folder, type(model).__name__, _listed(unused))


def _check_ties(model: Any) -> None:
    """Raise for weights that the configuration ties, and that are not equal: transformers leaves both then."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for one, other in sorted(model.get_expanded_tied_weights_keys(all_submodels=True).items()):
        if one in parameters and other in parameters and parameters[one] is not parameters[other]:
            raise BadInputError(
                f"{_CONFIG}: tie_word_embeddings: got true, but {one} and {other} differ: set it to false, "
                f"or remove {one} from the weights"
            )


def _check_layers(model: nn.Module, unused: Iterable[str]) -> None:
    """Raise for a layer of the files beyond the layers that the configuration counts."""
    lists = {name: len(module) for name, module in model.named_modules() if isinstance(module, nn.ModuleList)}
    for key in unused:
        for name, count in lists.items():
            index = key.removeprefix(f"{name}.").partition(".")[0]
            if key.startswith(f"{name}.") and index.isdecimal() and int(index) >= count:
                raise BadInputError(f"{_CONFIG}: got {count} of {name}, but the files have {key}: {_AGAIN}")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
