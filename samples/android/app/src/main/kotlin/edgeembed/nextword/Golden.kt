package edgeembed.nextword

import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtException
import ai.onnxruntime.OrtSession
import kotlin.math.abs

/**
 * Compares the outputs of this engine with the golden ones:
 *
 *     |y - g| <= atol + rtol |g|    for floats; other values are equal
 *
 * @throws BundleException naming the output that differs.
 */
fun compareGolden(bundle: ModelBundle) = bundle.json(GOLDEN) { golden ->
    val (inputs, outputs) = listOf("inputs", "outputs").map { golden[it].list }
    if (outputs.all { it["values"].list.isEmpty() }) {
        throw BundleException("$GOLDEN: got no values, expected outputs to compare")
    }
    val feeds = mutableMapOf<String, OnnxTensor>()
    try {
        inputs.forEach { feeds[it["name"].text] = tensorOf(it, bundle.environment) }
        bundle.session.run(feeds).use { results -> outputs.forEach { compare(it, results) } }
    } finally {
        feeds.values.forEach { it.close() }
    }
}

private fun tensorOf(input: Json, environment: OrtEnvironment): OnnxTensor {
    val (name, dtype) = listOf("name", "dtype").map { input[it].text }
    val create = CREATE[dtype]
        ?: throw BundleException("$GOLDEN: input $name: got $dtype, expected one of ${CREATE.keys.joinToString()}")
    val values = input["values"].list.map { it.number }
    return try {
        create(environment, values, shapeOf(input))
    } catch (error: OrtException) {
        throw damaged(GOLDEN, "input $name: ${error.message}") // values that are not of its shape
    }
}

private fun compare(golden: Json, results: OrtSession.Result) {
    val name = golden["name"].text
    val tensor = results[name].orElse(null) as? OnnxTensor
    val difference = (if (tensor == null) "got none" else differenceOf(golden, Values(tensor))) ?: return
    throw BundleException("output $name: $difference: this engine computes something else than the trained model")
}

private fun differenceOf(golden: Json, got: Values): String? {
    val dtype = golden["dtype"].text
    val shape = shapeOf(golden)
    if (got.dtype != dtype || !got.shape.contentEquals(shape)) {
        return "got ${got.dtype} ${got.shape.contentToString()}, expected $dtype ${shape.contentToString()}"
    }
    val positions = golden.optional("positions")?.list?.map { it.whole }
    val values = golden["values"].list.map { it.number }
    val size = shape.fold(1L, Long::times)
    val count = positions?.size ?: size.toInt()
    if (values.size != count) return "got ${values.size} golden values, expected $count"
    val (atol, rtol) = listOf("atol", "rtol").map { golden.optional(it)?.tolerance ?: 0.0 }
    values.forEachIndexed { at, expected ->
        val position = positions?.get(at) ?: at.toLong()
        if (position >= size) return "got $size values, expected one at position $position"
        val value = got[position.toInt()]
        if (!agree(value, expected, atol, rtol)) {
            return "got $value at position $position, expected $expected (atol $atol, rtol $rtol)"
        }
    }
    return null
}

private fun agree(got: Number, expected: Number, atol: Double, rtol: Double): Boolean {
    if (got is Long) return got == expected
    val y = got.toDouble()
    val g = expected.toDouble()
    if (g.isNaN() || g.isInfinite()) return y.compareTo(g) == 0 // NaN is equal to NaN here
    return abs(y - g) <= atol + rtol * abs(g)
}

private fun shapeOf(tensor: Json): LongArray = tensor["shape"].list.map { it.whole }.toLongArray()
