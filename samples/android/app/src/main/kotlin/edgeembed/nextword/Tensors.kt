package edgeembed.nextword

import ai.onnxruntime.OnnxJavaType
import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.TensorInfo.OnnxTensorType
import java.nio.Buffer
import java.nio.ByteBuffer
import java.nio.DoubleBuffer
import java.nio.FloatBuffer
import java.nio.IntBuffer
import java.nio.LongBuffer
import java.nio.ShortBuffer

typealias Create = (OrtEnvironment, List<Number>, LongArray) -> OnnxTensor

/** Makes a tensor of values and a shape, by the name of its type in numpy: those that ONNX Runtime for Java takes. */
val CREATE = mapOf<String, Create>(
    "float32" to { env, values, shape ->
        OnnxTensor.createTensor(env, FloatBuffer.wrap(FloatArray(values.size) { values[it].toFloat() }), shape)
    },
    "float64" to { env, values, shape ->
        OnnxTensor.createTensor(env, DoubleBuffer.wrap(DoubleArray(values.size) { values[it].toDouble() }), shape)
    },
    "int8" to { env, values, shape -> OnnxTensor.createTensor(env, bytes(values), shape, OnnxJavaType.INT8) },
    "int16" to { env, values, shape ->
        OnnxTensor.createTensor(env, ShortBuffer.wrap(ShortArray(values.size) { values[it].toShort() }), shape)
    },
    "int32" to { env, values, shape ->
        OnnxTensor.createTensor(env, IntBuffer.wrap(IntArray(values.size) { values[it].toInt() }), shape)
    },
    "int64" to { env, values, shape ->
        OnnxTensor.createTensor(env, LongBuffer.wrap(LongArray(values.size) { values[it].toLong() }), shape)
    },
    "uint8" to { env, values, shape -> OnnxTensor.createTensor(env, bytes(values), shape, OnnxJavaType.UINT8) },
    "bool" to { env, values, shape -> OnnxTensor.createTensor(env, bytes(values), shape, OnnxJavaType.BOOL) }
)

private val NAMES = mapOf(
    OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 to "float16",
    OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT to "float32",
    OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE to "float64",
    OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 to "int8",
    OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 to "int16",
    OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 to "int32",
    OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 to "int64",
    OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 to "uint8",
    OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 to "uint16",
    OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32 to "uint32",
    OnnxTensorType.ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL to "bool"
)
private val UNSIGNED = mapOf("uint8" to 0xffL, "uint16" to 0xffffL, "uint32" to 0xffffffffL)

/** The values of a tensor, which are copied once. */
class Values(tensor: OnnxTensor) {
    val dtype: String = tensor.info.onnxType.let { NAMES[it] ?: it.name } // as in numpy
    val shape: LongArray = tensor.info.shape
    private val buffer: Buffer? = when (tensor.info.type) {
        OnnxJavaType.FLOAT, OnnxJavaType.FLOAT16 -> tensor.floatBuffer
        OnnxJavaType.DOUBLE -> tensor.doubleBuffer
        OnnxJavaType.INT8, OnnxJavaType.UINT8, OnnxJavaType.BOOL -> tensor.byteBuffer
        OnnxJavaType.INT16 -> tensor.shortBuffer
        OnnxJavaType.INT32 -> tensor.intBuffer
        OnnxJavaType.INT64 -> tensor.longBuffer
        else -> null
    }
    private val mask = UNSIGNED[dtype] ?: -1L

    /** The value at a flat position: whole numbers and bool as Long, floats as they are. */
    operator fun get(at: Int): Number = when (buffer) {
        is FloatBuffer -> buffer[at]
        is DoubleBuffer -> buffer[at]
        is ByteBuffer -> buffer[at].toLong() and mask
        is ShortBuffer -> buffer[at].toLong() and mask
        is IntBuffer -> buffer[at].toLong() and mask
        is LongBuffer -> buffer[at]
        else -> throw BundleException("output: got $dtype, expected numbers: export another model")
    }
}

private fun bytes(values: List<Number>) = ByteBuffer.wrap(ByteArray(values.size) { values[it].toByte() })
