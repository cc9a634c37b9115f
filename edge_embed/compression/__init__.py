"""``compress``: how small which tables of a model become, and the ways into modules, programs, ONNX and TFLite files.

`plan`, `search` and `job` say how tables become smaller, `modules` and `programs` find and replace those of a model of
torch, `onnx` and `tflite` those of a file. What fits one table is in `edge_embed.fitting`.
"""
