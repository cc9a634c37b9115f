"""``compress``: selection and fitting of the tables of a model, for modules, programs, ONNX and TFLite files.

`plan`, `search` and `job` determine the sizes of tables. `modules` and `programs` find and replace tables of torch
models, `onnx` and `tflite` those of files. The fit of a single table is in `edge_embed.fitting`.
"""
