"""Quantiser of transformers for models with compressed tables."""

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.quantizers.auto import register_quantizer
from transformers.quantizers.base import HfQuantizer

from edge_embed.errors import BadInputError
from edge_embed.transformers.config import METHOD, EdgeEmbedConfig, StoredTable
from edge_embed.transformers.loaded_tables import Placed, check_stored, make_layers, place_tables
from edge_embed.transformers.saved_tables import saved_state, used_tables
from edge_embed.transformers.ties import forget_ties


@register_quantizer(METHOD)
class EdgeEmbedQuantizer(HfQuantizer):
    """Puts frozen layers of edge-embed into the models that ``from_pretrained`` loads, and saves their tables.

    transformers creates it for a folder whose ``config.json`` has the ``quant_method`` ``edge_embed``.
    """

    quantization_config: EdgeEmbedConfig
    _tables: dict[str, StoredTable]
    _placed: list[Placed]

    def validate_environment(self, *arguments: Any, **named: Any) -> None:
        """Check the configuration before a model is built.

        Raises:
            BadInputError: as `EdgeEmbedConfig.stored_tables`, or the model is not compressed yet.
        """
        if not self.pre_quantized:
            raise BadInputError(
                "quantization_config: got a model with dense tables, expected a compressed one: load it without "
                "quantization_config, and compress it with edge_embed.compress"
            )
        self._tables = self.quantization_config.stored_tables()

    def _process_model_before_weight_loading(self, model: Any, checkpoint_files: Any = None, **named: Any) -> None:
        is_whole = type(model).__name__ in (model.config.architectures or ())
        self._placed = place_tables(model, self._tables, is_whole)
        if checkpoint_files and all(path.endswith(".safetensors") for path in checkpoint_files):
            check_stored(self._placed, checkpoint_files)
        forget_ties(model, [layer for placed in self._placed for layer in placed.layers])

    def _process_model_after_weight_loading(self, model: Any, **named: Any) -> Any:
        make_layers(model, self._placed)
        del self._tables, self._placed
        return model

    def get_state_dict_and_metadata(self, model: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors that ``save_pretrained`` stores, and describe them in the configuration.

        Raises:
            BadInputError: a compressed layer is trainable or a bag.
        """
        state, tables = saved_state(model)
        self.quantization_config = model.config.quantization_config = EdgeEmbedConfig(tables)
        return state, {}

    def is_serializable(self) -> bool:
        """Return True: packed tables are stored in safetensors."""
        return True

    @property
    def is_trainable(self) -> bool:
        """Always True: all parameters outside of the frozen tables can be trained."""
        return True

    @property
    def is_qat_trainable(self) -> bool:
        """Always True: see `is_trainable`."""
        return True


def attach_quantizer(model: nn.Module) -> None:
    """Let ``save_pretrained`` of a transformers model store its compressed layers.

    `edge_embed.compress` does so for the frozen models that it returns. Call this for other models: after fine-tuning
    and ``freeze()``, or for layers that you put in yourself.

    Args:
        model: a ``PreTrainedModel`` whose compressed layers are frozen, in the place of ``nn.Embedding`` and
            ``nn.Linear`` layers.

    Raises:
        BadInputError: the model has another class, no compressed layer, or one that is trainable or a bag.
    """
    if not isinstance(model, PreTrainedModel):
        raise BadInputError(f"model: got a {type(model).__name__}, expected a PreTrainedModel of transformers")
    used = used_tables(model)
    model.hf_quantizer = EdgeEmbedQuantizer(EdgeEmbedConfig())  # type: ignore[assignment]  # no module
    forget_ties(model, [layer for each in used for layer in each.layers])
