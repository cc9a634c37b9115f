package ai.onnxruntime;

public class TensorInfo {
  /** The native types, with the name in numpy and the type in Java. */
  public enum OnnxTensorType {
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8("uint8", OnnxJavaType.UINT8),
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8("int8", OnnxJavaType.INT8),
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16("uint16", OnnxJavaType.INT16),
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16("int16", OnnxJavaType.INT16),
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32("uint32", OnnxJavaType.INT32),
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32("int32", OnnxJavaType.INT32),
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64("int64", OnnxJavaType.INT64),
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16("float16", OnnxJavaType.FLOAT16),
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT("float32", OnnxJavaType.FLOAT),
    ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE("float64", OnnxJavaType.DOUBLE),
    ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING("object", OnnxJavaType.STRING),
    ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL("bool", OnnxJavaType.BOOL);

    final String numpy;
    final OnnxJavaType type;

    OnnxTensorType(String numpy, OnnxJavaType type) {
      this.numpy = numpy;
      this.type = type;
    }

    static OnnxTensorType of(String numpy) {
      for (OnnxTensorType each : values()) if (each.numpy.equals(numpy)) return each;
      throw new IllegalArgumentException(numpy);
    }
  }

  public final OnnxJavaType type;
  public final OnnxTensorType onnxType;
  private final long[] shape;

  TensorInfo(long[] shape, OnnxTensorType onnxType) {
    this.shape = shape.clone();
    this.type = onnxType.type;
    this.onnxType = onnxType;
  }

  public long[] getShape() {
    return shape.clone();
  }
}
