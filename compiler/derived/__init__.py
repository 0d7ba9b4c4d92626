"""Files derived from a stranger's ONNX file: quantised, cut, and compared layer by layer."""
