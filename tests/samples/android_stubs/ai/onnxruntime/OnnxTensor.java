package ai.onnxruntime;

import ai.onnxruntime.TensorInfo.OnnxTensorType;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.Arrays;

public class OnnxTensor implements OnnxValue {
  final byte[] bytes;
  private final TensorInfo info;
  private boolean closed;

  OnnxTensor(OnnxTensorType type, long[] shape, byte[] bytes) {
    this.info = new TensorInfo(shape, type);
    this.bytes = bytes;
    Process.opened(this);
  }

  private static OnnxTensor create(OnnxTensorType type, ByteBuffer data, int size, long[] shape) throws OrtException {
    long count = Arrays.stream(shape).reduce(1, (a, b) -> a * b);
    if (count * size != data.capacity()) throw new OrtException("Shape requires " + count + " elements");
    return new OnnxTensor(type, shape, data.array());
  }

  private static ByteBuffer allocate(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.nativeOrder());
  }

  public static OnnxTensor createTensor(OrtEnvironment env, FloatBuffer data, long[] shape) throws OrtException {
    ByteBuffer bytes = allocate(4 * data.remaining());
    bytes.asFloatBuffer().put(data);
    return create(OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, bytes, 4, shape);
  }

  public static OnnxTensor createTensor(OrtEnvironment env, DoubleBuffer data, long[] shape) throws OrtException {
    ByteBuffer bytes = allocate(8 * data.remaining());
    bytes.asDoubleBuffer().put(data);
    return create(OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, bytes, 8, shape);
  }

  public static OnnxTensor createTensor(OrtEnvironment env, ShortBuffer data, long[] shape) throws OrtException {
    ByteBuffer bytes = allocate(2 * data.remaining());
    bytes.asShortBuffer().put(data);
    return create(OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, bytes, 2, shape);
  }

  public static OnnxTensor createTensor(OrtEnvironment env, IntBuffer data, long[] shape) throws OrtException {
    ByteBuffer bytes = allocate(4 * data.remaining());
    bytes.asIntBuffer().put(data);
    return create(OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, bytes, 4, shape);
  }

  public static OnnxTensor createTensor(OrtEnvironment env, LongBuffer data, long[] shape) throws OrtException {
    ByteBuffer bytes = allocate(8 * data.remaining());
    bytes.asLongBuffer().put(data);
    return create(OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, bytes, 8, shape);
  }

  public static OnnxTensor createTensor(OrtEnvironment env, ByteBuffer data, long[] shape, OnnxJavaType type)
      throws OrtException {
    ByteBuffer bytes = allocate(data.remaining()).put(data);
    return create(OnnxTensorType.valueOf("ONNX_TENSOR_ELEMENT_DATA_TYPE_" + type), bytes, 1, shape);
  }

  public TensorInfo getInfo() {
    return info;
  }

  private ByteBuffer buffer(OnnxJavaType type) {
    if (closed) throw new IllegalStateException("a closed tensor was read");
    return info.type == type ? ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()) : null;
  }

  public FloatBuffer getFloatBuffer() {
    if (info.type != OnnxJavaType.FLOAT16) return buffer(OnnxJavaType.FLOAT).asFloatBuffer();
    ShortBuffer halves = buffer(OnnxJavaType.FLOAT16).asShortBuffer();
    FloatBuffer floats = FloatBuffer.allocate(halves.capacity());
    while (halves.hasRemaining()) floats.put(floatOf(halves.get()));
    floats.rewind();
    return floats;
  }

  private static float floatOf(int half) {
    int exponent = half >> 10 & 31;
    int fraction = half & 1023;
    float size =
        exponent == 31
            ? (fraction == 0 ? Float.POSITIVE_INFINITY : Float.NaN)
            : (float) Math.scalb(exponent == 0 ? fraction : fraction + 1024.0, Math.max(exponent, 1) - 25);
    return half < 0 ? -size : size;
  }

  public DoubleBuffer getDoubleBuffer() {
    return buffer(OnnxJavaType.DOUBLE).asDoubleBuffer();
  }

  public ByteBuffer getByteBuffer() {
    return buffer(info.type);
  }

  public ShortBuffer getShortBuffer() {
    return buffer(OnnxJavaType.INT16).asShortBuffer();
  }

  public IntBuffer getIntBuffer() {
    return buffer(OnnxJavaType.INT32).asIntBuffer();
  }

  public LongBuffer getLongBuffer() {
    return buffer(OnnxJavaType.INT64).asLongBuffer();
  }

  @Override
  public void close() {
    closed = true;
    Process.closed(this);
  }
}
