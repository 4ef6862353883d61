"""A model's weights and its optimizer's moments as safetensors, to the bit."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rlhf_ray.errors import CheckpointError

WEIGHTS_FILE = "weights.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
SEPARATOR = "/"  # between a moment's name and its parameter's, neither of which contains it


def save_state(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Write both files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(_weights(model), folder / WEIGHTS_FILE)
    moments = {
        f"{key}{SEPARATOR}{name}": value.contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }
    save_file(moments, folder / OPTIMIZER_FILE)


def load_state(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Read what `save_state` wrote. Raises CheckpointError, before anything changes, unless it is this model's."""
    saved, own = _read(folder / WEIGHTS_FILE), _weights(model)
    moments = _read(folder / OPTIMIZER_FILE)
    _require_same_tensors(saved, own, file=folder / WEIGHTS_FILE)
    parameters = dict(model.named_parameters())
    for entry in moments:
        if entry.split(SEPARATOR)[1] not in parameters:
            raise CheckpointError(f"{folder / OPTIMIZER_FILE} belongs to another model: it holds {entry}")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(saved[name])
    optimizer.state.clear()
    for entry, value in moments.items():
        key, name = entry.split(SEPARATOR)
        optimizer.state[parameters[name]][key] = value.to(parameters[name].device)


def _weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters (a tied one once) and the buffers that belong to the model's state."""
    state = model.state_dict()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in state}
    return {name: tensor.detach() for name, tensor in [*model.named_parameters(), *buffers.items()]}


def _read(file: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(file)
    except FileNotFoundError as error:
        raise CheckpointError(f"{file} is missing; the checkpoint is incomplete") from error
    except SafetensorError as error:
        raise CheckpointError(f"{file} is damaged: {error}") from error
    return tensors


def _require_same_tensors(saved: dict[str, Tensor], own: dict[str, Tensor], *, file: Path) -> None:
    strange = sorted(saved.keys() ^ own.keys())
    if strange:
        where = "only in the checkpoint" if strange[0] in saved else "not in the checkpoint"
        raise CheckpointError(f"{file} belongs to another model: {strange[0]} is {where} ({len(strange)} such tensors)")
    for name, tensor in own.items():
        if (saved[name].shape, saved[name].dtype) != (tensor.shape, tensor.dtype):
            raise CheckpointError(
                f"{file} belongs to another model: {name} is {saved[name].dtype} {list(saved[name].shape)}, "
                f"the model's is {tensor.dtype} {list(tensor.shape)}"
            )
