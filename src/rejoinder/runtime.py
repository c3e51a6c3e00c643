"""Classes that open exports without PyTorch.

Numpy, onnxruntime and Rejoinder's tokenizer are enough.

>>> from rejoinder.runtime import OnnxEncoder
>>> encoder = OnnxEncoder("demo/onnx")  # doctest: +SKIP
>>> encoder.score([["Hi!", "Any pets?"]], [["Two cats!", "We open at nine."]])  # doctest: +SKIP
"""

from rejoinder.encoders.onnx.encoder import OnnxEncoder
from rejoinder.intents.onnx import OnnxIntents
from rejoinder.intents.prediction import Prediction

__all__ = ["OnnxEncoder", "OnnxIntents", "Prediction"]
