"""ONNX folders, computed with numpy and onnxruntime alone; `export.onnx` writes them."""
