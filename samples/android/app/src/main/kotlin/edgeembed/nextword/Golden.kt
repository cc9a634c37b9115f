package edgeembed.nextword

import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtSession
import kotlin.math.abs
import org.json.JSONArray
import org.json.JSONObject

private const val GOLDEN = "golden.json"

/**
 * Compares the outputs of this engine with the golden ones:
 *
 *     |y - g| <= atol + rtol |g|    for floats; other values are equal
 *
 * @throws BundleException naming the output that differs.
 */
fun compareGolden(bundle: ModelBundle) = bundle.json(GOLDEN) { golden ->
    val (inputs, outputs) = listOf("inputs", "outputs").map { (golden as JSONObject).getJSONArray(it).objects() }
    if (outputs.all { it.getJSONArray("values").length() == 0 }) {
        throw BundleException("$GOLDEN: got no values, expected outputs to compare")
    }
    val feeds = mutableMapOf<String, OnnxTensor>()
    try {
        inputs.forEach { feeds[it.getString("name")] = tensorOf(it, bundle.environment) }
        bundle.session.run(feeds).use { results -> outputs.forEach { compare(it, results) } }
    } finally {
        feeds.values.forEach { it.close() }
    }
}

private fun tensorOf(input: JSONObject, environment: OrtEnvironment): OnnxTensor {
    val (name, dtype) = listOf("name", "dtype").map(input::getString)
    val create = CREATE[dtype]
        ?: throw BundleException("$GOLDEN: input $name: got $dtype, expected one of ${CREATE.keys.joinToString()}")
    return create(environment, input.getJSONArray("values").numbers(), shapeOf(input))
}

private fun compare(golden: JSONObject, results: OrtSession.Result) {
    val name = golden.getString("name")
    val tensor = results[name].orElse(null) as? OnnxTensor
    val difference = (if (tensor == null) "got none" else differenceOf(golden, Values(tensor))) ?: return
    throw BundleException("output $name: $difference: this engine computes something else than the trained model")
}

private fun differenceOf(golden: JSONObject, got: Values): String? {
    val dtype = golden.getString("dtype")
    val shape = shapeOf(golden)
    if (got.dtype != dtype || !got.shape.contentEquals(shape)) {
        return "got ${got.dtype} ${got.shape.contentToString()}, expected $dtype ${shape.contentToString()}"
    }
    val positions = golden.optJSONArray("positions")
    val values = golden.getJSONArray("values").numbers()
    val count = positions?.length() ?: shape.fold(1L, Long::times).toInt()
    if (values.size != count) return "got ${values.size} golden values, expected $count"
    val atol = golden.optDouble("atol", 0.0)
    val rtol = golden.optDouble("rtol", 0.0)
    values.forEachIndexed { at, expected ->
        val position = positions?.getInt(at) ?: at
        if (!agree(got[position], expected, atol, rtol)) {
            return "got ${got[position]} at position $position, expected $expected (atol $atol, rtol $rtol)"
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

private fun shapeOf(tensor: JSONObject): LongArray =
    tensor.getJSONArray("shape").let { shape -> LongArray(shape.length()) { shape.getLong(it) } }

private fun JSONArray.objects(): List<JSONObject> = List(length()) { getJSONObject(it) }

/** The values: whole numbers and bool as Long, others as Double. */
private fun JSONArray.numbers(): List<Number> = List(length()) { at ->
    when (val value = get(at)) {
        is Boolean -> if (value) 1L else 0L
        is Int -> value.toLong()
        is Number -> value
        else -> getDouble(at) // "NaN", "Infinity" and "-Infinity"
    }
}
